package faulttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// Connections that listen are closed by the server.
func TestListening(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "57 the connections that listen are killed", Run: listenersKilled},
	})
}

// Load on one server.
func TestLoad(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "58a scripts are forgotten under load", Run: scriptsFlushed},
		{Name: "58b a script is forgotten again at once", From: "3.46.0", Run: forgottenAgain},
	})
}

// A server of their own: Redisson's unlock of several locks may fail where scripts are
// forgotten, and then it renews them forever.
func TestMultiLocks(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "60a a MultiLock in the order of LockAll", Run: sameOrder},
		{Name: "60b a MultiLock in the opposite order", Run: oppositeOrder},
	})
}

// The server forgets everything.
func TestRestart(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "59 the server restarts without its data", Run: serverRestarts},
	})
}

func listenersKilled(t *testing.T, b *redisson.Bench) {
	const lease = 10 * time.Second
	l := b.Locker(10 * time.Second)
	j, heard := redisson.ThreadOf(t, b.Java, "c57"), redisson.ThreadOf(t, b.Java, "c57-heard")

	// Locks that are gone without a message, as one that the link lost.
	forgotten := take(t, l, "case57:java", holdfast.FixedLease(lease))
	began := time.Now()
	sleeps := j.Begin(lockOf("lock", forgotten.Name(), 0))
	j.AwaitSleep()
	told := take(t, l, "case57:told", holdfast.FixedLease(time.Minute))
	hears := heard.Begin(lockOf("lock", told.Name(), 0))
	heard.AwaitSleep()
	b.Admin().Int("DEL", forgotten.Name())
	for _, adapter := range []string{"rueidis", "goredis"} {
		other := b.Over(b.Through(adapter, redishold.Options{}), 10*time.Second)
		wakesByReconnect(t, b, l, other, adapter)
	}
	after := sleeps.Wait().Received.Sub(began)
	j.Do(lockOf("unlock", forgotten.Name(), 0))
	if after < lease-100*time.Millisecond {
		t.Errorf("Java had the lock after %v, before its lease of %v would have ended: what was observed is no longer so", after, lease)
	}
	if err := forgotten.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock of a lock whose key was deleted: %v, want ErrLost", err)
	}
	t.Attr("observed", fmt.Sprintf("after its connection for messages was killed Java subscribes again but does not look: it slept on to the end of the lease of %v; Go looks at once", lease))

	redisson.Await(t, "Java listens again", func() bool { return redisson.Listeners(b.Admin(), channel(told.Name())) == 1 })
	since := await.NewWatch(t)
	must(t, told.Unlock())
	redisson.Woken(t, "Java, by a message after it reconnected", since, hears.Wait().Received)
	heard.Do(lockOf("unlock", told.Name(), 0))
}

// wakesByReconnect has Go wait for locks whose messages get lost together with the
// connections that listen. Without a look after the reconnect it would ask once a
// second, so several rounds tell.
func wakesByReconnect(t *testing.T, b *redisson.Bench, holder, waiter *holdfast.Locker, adapter string) {
	t.Helper()
	for range 3 {
		lock := take(t, holder, b.Name, holdfast.FixedLease(time.Minute))
		waits := waitFor(t, waiter, b.Name)
		redisson.AwaitGo(t, b.Admin(), "acquire", b.Name, "Go listens", func() bool { return redisson.Listeners(b.Admin(), channel(b.Name)) == 1 })
		b.Admin().Int("DEL", b.Name)
		began := await.NewWatch(t)
		b.Admin().KillPubSub()
		next, at := waits.Wait()
		redisson.Woken(t, adapter+", by its reconnect", began, at)
		must(t, next.Unlock())
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of a lock whose key was deleted: %v, want ErrLost", err)
		}
		redisson.Await(t, "Go listens no more", func() bool { return redisson.Listeners(b.Admin(), channel(b.Name)) == 0 })
	}
}

// load has threads and goroutines add to a counter that nothing protects but the
// locks that both take.
type load struct {
	t       *testing.T
	b       *redisson.Bench
	counter string
	threads []redisson.Answer
	team    sync.WaitGroup
	want    int
}

func (o *load) java(i, rounds int, c peer.Command) {
	c.Op, c.N, c.Value = "stress", int64(rounds), o.counter
	o.threads = append(o.threads, redisson.ThreadOf(o.t, o.b.Java, fmt.Sprintf("%s-%d", o.b.Name, i)).Begin(c))
	o.want += rounds
}

func (o *load) golang(rounds int, hold func(context.Context, func()) error) {
	o.want += rounds
	o.team.Go(func() {
		for range rounds {
			ctx, cancel := context.WithTimeout(o.t.Context(), longestWait)
			err := hold(ctx, o.add)
			cancel()
			if err != nil {
				o.t.Errorf("Go: %v", err)
				return
			}
		}
	})
}

// add adds 1 with a GET and a SET, and looks whether anybody else is inside.
func (o *load) add() {
	admin := o.b.Admin()
	if n := admin.Do("INCR", o.counter+":in"); n != int64(1) {
		o.t.Errorf("%v inside", n)
	}
	was, _ := admin.Do("GET", o.counter).(string)
	n, _ := strconv.Atoi(was) // "" is 0
	admin.Do("SET", o.counter, strconv.Itoa(n+1))
	admin.Do("DECR", o.counter+":in")
}

// wait returns when all have done their rounds, and wants each to have counted.
func (o *load) wait() {
	o.t.Helper()
	o.team.Wait()
	for _, thread := range o.threads {
		if inside := thread.Wait().Int(); inside > 1 {
			o.t.Errorf("Java saw %d inside", inside)
		}
	}
	if got := o.b.Admin().String("GET", o.counter); got != strconv.Itoa(o.want) {
		o.t.Errorf("counter: got %s, want %d", got, o.want)
	}
	o.b.Admin().Int("DEL", o.counter, o.counter+":in")
}

func scriptsFlushed(t *testing.T, b *redisson.Bench) {
	const workers, rounds, every = 3, 250, 300 * time.Millisecond // see forgottenAgain for a shorter time
	j := redisson.ThreadOf(t, b.Java, "c58a")
	for range 2 { // the first time is slow
		b.Admin().Do("SCRIPT", "FLUSH", "SYNC")
		j.Do(lockOf("lock", b.Name, 0))
		b.Admin().Do("SCRIPT", "FLUSH", "SYNC")
		j.Do(lockOf("unlock", b.Name, 0))
	}
	o := &load{t: t, b: b, counter: b.Name + ":counter"}
	stop, flushed := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { flushed <- n }()
		for ; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(every):
				b.Admin().Do("SCRIPT", "FLUSH", "SYNC")
			}
		}
	}()
	for i := range workers {
		l := b.Over(b.Through([]string{"rueidis", "goredis"}[i%2], redishold.Options{}), 10*time.Second)
		o.java(i, rounds, peer.Command{Name: b.Name})
		o.golang(rounds, func(ctx context.Context, fn func()) error {
			return l.Mutex(b.Name).Do(ctx, func(context.Context, *holdfast.Lock) error { fn(); return nil })
		})
	}
	o.wait()
	close(stop)
	n := <-flushed
	t.Logf("%d times flushed within %d locks", n, o.want)
	if n < 3 {
		t.Errorf("scripts were flushed only %d times", n)
	}
}

// forgottenAgain has the server forget a script between the moment at which a
// client loads it and the one at which it asks for it again.
func forgottenAgain(t *testing.T, b *redisson.Bench) {
	addr := b.Deployment.Servers()[0].Addr()
	for _, adapter := range []string{"rueidis", "goredis"} {
		proxy := faultproxy.Start(t, addr)
		target := dial.To(adapter, b.Deployment)
		target.Routes = map[string]string{addr: proxy.Addr()}
		conn, shut, err := dial.Open(t.Context(), target)
		must(t, err)
		t.Cleanup(shut)
		l := b.Over(redishold.New(conn, nil), 10*time.Second)
		must(t, take(t, l, b.Name).Unlock()) // so that it knows the server
		rule := forget(proxy)
		lock := take(t, l, b.Name)
		if rule.Count() == 0 {
			t.Errorf("%s did not ask for a script by its digest", adapter)
		}
		must(t, lock.Unlock())
	}
	proxy := faultproxy.Start(t, addr)
	j := redisson.ThreadOf(t, redisson.Start(t, b.Version, redisson.At(proxy.Addr())), "c58b")
	j.Do(lockOf("lock", b.Name, 0))
	j.Do(lockOf("unlock", b.Name, 0))
	rule := forget(proxy)
	r := j.Try(lockOf("tryLock", b.Name, 0))
	rule.Release()
	if r.Class != "org.redisson.client.RedisNoScriptException" {
		t.Fatalf("Java: got %s and %v: what was observed is no longer so", r.Value, r.Err())
	}
	t.Attr("observed", "Redisson with its script cache (the default since 3.46.0) throws RedisNoScriptException where scripts are flushed between its SCRIPT LOAD and its second EVALSHA; Go sends the text instead")
}

// forget makes the server forget scripts all the time.
func forget(proxy *faultproxy.Proxy) *faultproxy.Rule {
	return proxy.On(faultproxy.Command("EVALSHA"), faultproxy.Reply("-NOSCRIPT No matching script. Please use EVAL.\r\n"), faultproxy.Always())
}

// longestWait is what the two orders of a MultiLock may cost in all.
const longestWait = time.Minute

// multiLocks has threads take three locks in that order, while goroutines take
// them with LockAll.
func multiLocks(t *testing.T, b *redisson.Bench, workers, rounds int, order ...string) {
	o := &load{t: t, b: b, counter: b.Name + ":counter"}
	stem := b.Name + ":"
	var names []string
	for _, name := range order {
		names = append(names, stem+name)
	}
	began := time.Now()
	for i := range workers {
		l := b.Over(b.Through([]string{"rueidis", "goredis"}[i%2], redishold.Options{}), 10*time.Second)
		o.java(i, rounds, peer.Command{Kind: "multi", Names: names, Wait: longestWait.Milliseconds()})
		o.golang(rounds, func(ctx context.Context, fn func()) error {
			locks, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex(stem + "c"), l.Mutex(stem + "b"), l.Mutex(stem + "a")})
			if err != nil {
				return err
			}
			fn()
			return locks.Unlock()
		})
	}
	o.wait()
	took := time.Since(began)
	t.Logf("%d holds of three locks each within %v", o.want, took)
	if took > longestWait {
		t.Errorf("it took %v, want %v at most", took, longestWait)
	}
}

func sameOrder(t *testing.T, b *redisson.Bench) { multiLocks(t, b, 3, 10, "a", "b", "c") }

func oppositeOrder(t *testing.T, b *redisson.Bench) {
	multiLocks(t, b, 1, 4, "c", "b", "a")
	t.Attr("observed", "a MultiLock waits for up to 1.5 s per lock with what it has already taken, then gives all back and begins again: in another order than that of LockAll, by name, each meeting may cost seconds, but no deadlock")
}

func serverRestarts(t *testing.T, b *redisson.Bench) {
	const ttl = 6 * time.Second
	l := b.Over(b.Through("goredis", redishold.Options{}), ttl)
	j := redisson.ThreadOf(t, b.Java, "c59")
	goes, javas := take(t, l, "case59:go"), "case59:java"
	j.Do(lockOf("lock", javas, 0))
	b.Deployment.Servers()[0].Restart()
	began := time.Now()
	select {
	case <-goes.Context(t.Context()).Done():
		took := time.Since(began)
		t.Logf("Go was told after %v", took)
		if most := ttl/3 + time.Second; took > most {
			t.Errorf("Go was told of the loss after %v, want %v at most", took, most)
		}
	case <-time.After(ttl):
		t.Error("Go was not told of the loss")
	}
	if err := goes.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: got %v, want ErrLost", err)
	}
	next := take(t, l, goes.Name())
	if next.Token() <= goes.Token() {
		t.Errorf("token %d after %d", next.Token(), goes.Token())
	}
	must(t, next.Unlock())
	mine := take(t, l, javas) // which Java still uses
	if r := untilReached(t, j, lockOf("unlock", javas, 0)); r.Class != redisson.NotHeld {
		t.Errorf("Java's unlock of what the server forgot: got %v, want %s", r.Err(), redisson.NotHeld)
	}
	must(t, mine.Unlock())
	t.Attr("observed", "a Java holder is not notified that the server restarted without its data: Go had the lock while Java went on, until its unlock threw IllegalMonitorStateException; a Go holder is notified by its next renewal")
	j.Do(lockOf("lock", javas, 0))
	j.Do(lockOf("unlock", javas, 0))
}
