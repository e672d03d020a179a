package conntest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// clusterEnv is a cluster and a Conn to it. Keys are the adapter's own.
type clusterEnv struct {
	*testing.T
	*redistest.Deployment
	adapter string
	conn    redishold.Conn
}

// eachInCluster runs test for every adapter, on one cluster that is healed in
// between. Tests with clusters run beside each other: they wait for most of the time.
func eachInCluster(t *testing.T, test func(e *clusterEnv), opts ...redistest.Option) {
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster, opts...)
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) { test(openIn(t, d, adapter)) })
	}
}

// openIn heals a cluster and connects to it until t ends.
func openIn(t *testing.T, d *redistest.Deployment, adapter string) *clusterEnv {
	t.Helper()
	d = d.Bind(t)
	if err := d.Heal(); err != nil {
		t.Fatal(err)
	}
	conn, closeConn, err := dial.Open(await.Context(t, 10*time.Second), dial.To(adapter, d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeConn)
	return &clusterEnv{T: t, Deployment: d, adapter: adapter, conn: conn}
}

// key returns a key of its own for every i.
func (e *clusterEnv) key(i int) string { return e.adapter + "-" + strconv.Itoa(i) }

// keys returns n keys, of slots all over the cluster.
func (e *clusterEnv) keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = e.key(i)
	}
	return keys
}

// keysOf returns n keys of the master s, or with other set n of the others.
func (e *clusterEnv) keysOf(s *redistest.Server, n int, other bool) []string {
	var keys []string
	for i := 1000; len(keys) < n; i++ {
		if key := e.key(i); (e.Master(key) == s) != other {
			keys = append(keys, key)
		}
	}
	return keys
}

// counting returns one call for each key, whose every execution shows.
func counting(keys []string, replicas int) []redishold.Call {
	calls := make([]redishold.Call, len(keys))
	for i, key := range keys {
		calls[i] = redishold.Call{Script: redishold.NewScript("count", count), Keys: []string{key}, Replicas: replicas}
	}
	return calls
}

// executed returns how often the call for key was executed.
func (e *clusterEnv) executed(key string) int64 {
	value, _ := e.Master(key).Do("GET", key).(string)
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// all fails the test unless each call was executed for the want-th time.
func (e *clusterEnv) all(results []redishold.Result, want int64) {
	e.Helper()
	for i, r := range results {
		if r.Err != nil || r.Value != want {
			e.Fatalf("call %d of %d: got %v, error %v, want %d", i, len(results), r.Value, r.Err, want)
		}
	}
}

// clients returns how many connections the masters have that are not of other
// servers, and not the one that asks.
func (e *clusterEnv) clients() (n int) {
	for _, s := range e.Masters() {
		n += strings.Count(s.String("CLIENT", "LIST", "TYPE", "normal"), "\n") - 1
	}
	return n
}

func TestClusterBatches(t *testing.T) {
	eachInCluster(t, func(e *clusterEnv) {
		e.keysOfManySlots()
		e.callsWithAndWithoutKeys(e.keys(420)[400:])
		e.errorsAreEachCallsOwn(e.keys(550)[500:])
	})
}

func (e *clusterEnv) keysOfManySlots() {
	keys := e.keys(300)
	ctx := await.Context(e, 10*time.Second)
	e.all(e.conn.Do(ctx, counting(keys, 0)...), 1)
	e.all(e.conn.Do(ctx, counting(keys, 1)...), 2)
	for i := range 20 {
		e.all(e.conn.Do(ctx, counting(keys, i%2)...), int64(i+3))
	}
	e.all(e.conn.Do(ctx, counting(keys[:1], 0)...), 23)
	e.all(e.conn.Do(ctx, counting(keys[:1], 1)...), 24)
	if n := e.clients(); n > 20 {
		e.Errorf("got %d connections for batches of 300 keys on 3 nodes", n)
	}
}

func (e *clusterEnv) callsWithAndWithoutKeys(keys []string) {
	calls := counting(keys, 0)
	for range 5 {
		calls = append(calls, redishold.Call{Script: redishold.NewScript("none", "return 1")})
	}
	e.all(e.conn.Do(await.Context(e, 5*time.Second), calls...), 1)
}

func (e *clusterEnv) errorsAreEachCallsOwn(keys []string) {
	calls := counting(keys, 0)
	calls[7].Script = redishold.NewScript("bad", "return redis.error_reply('CUSTOM words')")
	calls[9].Keys = keys[1:5] // surely of different slots
	r := e.conn.Do(await.Context(e, 5*time.Second), calls...)
	if replyText(r[7].Err) != "CUSTOM words" || replyText(r[9].Err) == "" {
		e.Errorf("got errors %v and %v, want CUSTOM and CROSSSLOT", r[7].Err, r[9].Err)
	}
	e.all(append(append(r[:7:7], r[8]), r[10:]...), 1)
}

func TestClusterFrozenNodeCostsOnlyItsOwnCalls(t *testing.T) {
	await.NotShort(t, "takes long")
	const limit = 300 * time.Millisecond
	eachInCluster(t, func(e *clusterEnv) {
		frozen := e.Master(e.key(0))
		cold, warm := e.keysOf(frozen, 50, false), e.keysOf(frozen, 101, true)
		warm, lone := warm[:100], warm[100:]
		e.all(e.conn.Do(await.Context(e, 10*time.Second), counting(append(cold, warm...), 0)...), 1)
		e.all(e.conn.Do(await.Context(e, 10*time.Second), counting(warm, 1)...), 2)
		e.Cleanup(frozen.Resume)
		frozen.Pause()
		for replicas := range 2 {
			start := await.NewWatch(e)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			r := e.conn.Do(ctx, counting(append(cold[:50:50], warm...), replicas)...)
			took, late := time.Since(start.Began), start.Late()
			cancel()
			for _, r := range r[:50] {
				if !errors.Is(r.Err, context.DeadlineExceeded) {
					e.Fatalf("a call for the frozen node: got %v, error %v, want DeadlineExceeded", r.Value, r.Err)
				}
			}
			e.all(r[50:], int64(replicas)*2+3)
			if took < limit || took > limit+time.Second+late {
				e.Errorf("took %v, want %v; the machine stood still for %v", took, limit, late)
			}
			start = await.NewWatch(e)
			e.all(e.conn.Do(await.Context(e, 5*time.Second), counting(warm, replicas)...), int64(replicas)*2+4)
			e.all(e.conn.Do(await.Context(e, 5*time.Second), counting(lone, replicas)...), int64(replicas)+1)
			if took := start.Took(); took > time.Second {
				e.Errorf("keys of healthy nodes took %v, of which the machine stood still for %v", took, late)
			}
		}
	}, redistest.NodeTimeout(10*time.Second))
}

func TestClusterOpensBesideFrozenNode(t *testing.T) {
	eachInCluster(t, func(e *clusterEnv) {
		frozen := e.Master(e.key(0))
		warm, target := e.keysOf(frozen, 1, true), dial.To(e.adapter, e.Deployment)
		e.Cleanup(frozen.Resume)
		frozen.Pause()
		for range 5 { // what an adapter asks first, it may ask of any node
			conn, closeConn, err := dial.Open(await.Context(e, 10*time.Second), target)
			if err != nil {
				e.Fatal(err)
			}
			defer closeConn()
			start := await.NewWatch(t)
			for conn.Do(await.Context(e, 200*time.Millisecond), counting(warm, 0)...)[0].Err != nil {
				if start.Took() > 3*time.Second {
					e.Fatal("a fresh client does not serve the keys of healthy nodes")
				}
			}
		}
	}, redistest.NodeTimeout(10*time.Second))
}

func TestClusterFrozenMasterIsReplaced(t *testing.T) {
	await.NotShort(t, "takes long")
	eachInCluster(t, func(e *clusterEnv) {
		frozen := e.Master(e.key(0))
		cold := e.keysOf(frozen, 10, false)
		e.all(e.conn.Do(await.Context(e, 10*time.Second), counting(cold, 0)...), 1)
		e.Cleanup(frozen.Resume)
		frozen.Pause()
		replaced := make(chan time.Time, 1)
		go func() { // FindMaster waits for a master that is up
			for range 300 {
				if s, err := e.FindMaster(cold[0]); err == nil && s != frozen {
					break
				}
			}
			replaced <- time.Now()
		}()
		ctx, began := await.Context(e, 30*time.Second), await.NewWatch(e)
		for ok := false; !ok; {
			attempt, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			r := e.conn.Do(attempt, counting(cold, 0)...)
			cancel()
			ok = true
			for _, r := range r {
				ok = ok && r.Err == nil
			}
			if ctx.Err() != nil {
				e.Fatalf("still not served by the new master: %v", r[0].Err)
			}
		}
		late, starved := time.Since(<-replaced), began.Late()
		e.Logf("served %v after the failover", late)
		if late > 2*time.Second+starved {
			e.Errorf("served %v after the failover, want 2s at most; the machine stood still for %v", late, starved)
		}
	})
}

// other returns a master that is not that of key.
func (e *clusterEnv) other(key string) *redistest.Server {
	owner := e.Master(key)
	for _, s := range e.Masters() {
		if s != owner {
			return s
		}
	}
	e.Fatal("no second master")
	return nil
}

// A slot that has moved, and one that is on the move, are followed, also where replicas
// have to acknowledge.
func TestClusterMovedSlot(t *testing.T) {
	eachInCluster(t, func(e *clusterEnv) {
		for replicas := range 2 {
			e.movedSlot(e.keys(100 * (replicas + 1))[100*replicas:], replicas)
			e.slotOnTheMove(e.keys(500 + 100*(replicas+1))[500+100*replicas:], replicas)
		}
	})
}

func (e *clusterEnv) movedSlot(keys []string, replicas int) {
	e.Helper()
	ctx := await.Context(e, 20*time.Second)
	e.all(e.conn.Do(ctx, counting(keys, replicas)...), 1)
	for _, key := range keys[:3] {
		if err := e.migrateFrom(key).Finish(); err != nil {
			e.Fatal(err)
		}
	}
	e.all(e.conn.Do(ctx, counting(keys, replicas)...), 2)
	e.all(e.conn.Do(ctx, counting(keys[:1], replicas)...), 3)
	e.all(e.conn.Do(ctx, counting(keys[1:], replicas)...), 3)
}

// migrateFrom begins to move the slot of key to another master.
func (e *clusterEnv) migrateFrom(key string) *redistest.Migration {
	e.Helper()
	m, err := e.MigrateSlot(redistest.Slot(key), e.other(key))
	if err != nil {
		e.Fatal(err)
	}
	return m
}

func (e *clusterEnv) slotOnTheMove(keys []string, replicas int) {
	e.Helper()
	ctx := await.Context(e, 20*time.Second)
	e.all(e.conn.Do(ctx, counting(keys, replicas)...), 1)
	for i, key := range keys[:2] {
		m := e.migrateFrom(key)
		defer func() {
			if err := m.Finish(); err != nil {
				e.Error(err)
			}
		}()
		if i == 0 { // has gone ahead, the other has not
			if err := m.Move(key); err != nil {
				e.Fatal(err)
			}
		}
	}
	e.all(e.conn.Do(ctx, counting(keys, replicas)...), 2)
	e.all(e.conn.Do(ctx, counting(keys[:1], replicas)...), 3)
	two := counting(keys[:1], replicas)
	two[0].Keys = append(two[0].Keys, "{"+keys[0]+"}-not-there")
	r := e.conn.Do(ctx, two...)
	if !strings.HasPrefix(replyText(r[0].Err), "TRYAGAIN") {
		e.Errorf("two keys, one of them gone ahead: got %v, error %v, want TRYAGAIN", r[0].Value, r[0].Err)
	}
}

// keepKilling cuts all clients off, again and again until stop is closed.
func keepKilling(server redistest.Admin, stop <-chan struct{}) {
	pause := time.NewTicker(7 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-stop:
			return
		case <-pause.C:
			server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
}

func TestClusterExecutesNothingTwice(t *testing.T) {
	eachInCluster(t, func(e *clusterEnv) {
		keys := e.keys(60)
		e.all(e.conn.Do(await.Context(e, 10*time.Second), counting(keys, 0)...), 1)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, master := range e.Masters() {
			admin := redistest.At(master.Addr(), "") // of no test: it is for another goroutine
			wg.Go(func() { keepKilling(admin, stop) })
		}
		sure, maybe := make([]int64, len(keys)), make([]int64, len(keys))
		failures := 0
		for i := range sized(500, 100) {
			for j, r := range e.conn.Do(await.Context(e, 2*time.Second), counting(keys, i%3/2)...) {
				var reply *redishold.ReplyError
				switch {
				case r.Err == nil:
					sure[j]++
				case errors.Is(r.Err, driver.ErrNotExecuted):
					failures++
				case errors.As(r.Err, &reply) && strings.HasPrefix(reply.Text, "CLUSTERDOWN"):
					failures++ // a node of a busy machine was silent; the script did not run
				case errors.As(r.Err, &reply) && r.Value == nil:
					e.Fatalf("got error %v", r.Err)
				default:
					failures++
					maybe[j]++
				}
			}
		}
		close(stop)
		wg.Wait()
		e.Logf("%d calls failed", failures)
		if failures == 0 {
			e.Error("no connection was cut at a bad moment; the test shows nothing")
		}
		for j, key := range keys {
			if n := e.executed(key) - 1; n < sure[j] || n > sure[j]+maybe[j] {
				e.Errorf("%s: executed %d times, want %d to %d", key, n, sure[j], sure[j]+maybe[j])
			}
		}
	})
}
