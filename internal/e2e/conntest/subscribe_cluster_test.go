package conntest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// restoreLimit is how long a subscription may be deaf after its node has died or
// stands still: failover takes 1 to 2.6 s, noticing a silent link up to 4 s.
const restoreLimit = 10 * time.Second

// kindEnv is a cluster and a Conn to it, for one kind of channels.
type kindEnv struct {
	*clusterEnv
	kind    redishold.Channel // one without a name
	sharded bool              // it is a sharded one
}

// eachKind runs test for every adapter and all kinds of channels, or with -short for
// those that the engine prefers, each with a Conn of its own, on one cluster that is
// healed in between.
func eachKind(t *testing.T, test func(e *kindEnv)) {
	t.Parallel()
	eachKindAlone(t, test)
}

// eachKindAlone is eachKind for a test that counts goroutines: no other runs beside it.
func eachKindAlone(t *testing.T, test func(e *kindEnv)) {
	t.Helper()
	d := redistest.StartDeployment(t, redistest.Cluster)
	preferred := redistest.Has(t, redistest.ShardedChannels)
	for _, adapter := range dial.Adapters() {
		for kind, ch := range map[string]redishold.Channel{"classic": {}, "sharded": {Sharded: true}} {
			if testing.Short() && ch.Sharded != preferred {
				continue
			}
			t.Run(adapter+"/"+kind, func(t *testing.T) {
				if ch.Sharded {
					redistest.Needs(t, redistest.ShardedChannels)
				}
				test(&kindEnv{openIn(t, d, adapter), ch, ch.Sharded})
			})
		}
	}
}

// channel is that of a name.
func (e *kindEnv) channel(name string) redishold.Channel {
	ch := e.kind
	ch.Name = name
	return ch
}

// listen subscribes and takes the first confirmation.
func (e *kindEnv) listen(name string) (*ear, redishold.Subscription) {
	e.Helper()
	a := newEar(e)
	sub, err := e.conn.Subscribe(await.Context(e, 5*time.Second), e.channel(name), a.notify)
	if err != nil {
		e.Fatalf("subscribe to %s: %v", name, err)
	}
	e.Cleanup(sub.Close)
	a.confirmed()
	return a, sub
}

// listenAll subscribes to all names at once.
func (e *kindEnv) listenAll(names []string) ([]*ear, []redishold.Subscription) {
	e.Helper()
	ears, subs := make([]*ear, len(names)), make([]redishold.Subscription, len(names))
	var wg sync.WaitGroup
	ctx := await.Context(e, 10*time.Second)
	for i, name := range names {
		ears[i] = &ear{e, make(chan redishold.Notice, 100)}
		ch := e.channel(name)
		wg.Go(func() {
			var err error
			subs[i], err = e.conn.Subscribe(ctx, ch, ears[i].notify)
			if err != nil {
				e.Errorf("subscribe to %s: %v", name, err)
				return
			}
			e.Cleanup(subs[i].Close)
		})
	}
	wg.Wait()
	if e.Failed() {
		e.FailNow()
	}
	return ears, subs
}

// publish sends a message: on the other side of the cluster if its kind permits.
func (e *kindEnv) publish(name, payload string) any {
	if e.sharded {
		s, err := e.FindMaster(name)
		if err != nil {
			return err
		}
		return s.Do("SPUBLISH", name, payload)
	}
	masters := e.Masters()
	return masters[len(masters)-1].Do("PUBLISH", name, payload)
}

// hear publishes until a learns of it, which must be after a new confirmation, and
// returns how long that took.
func (e *kindEnv) hear(a *ear, most time.Duration, publish func()) time.Duration {
	e.Helper()
	start, again, limit := time.Now(), false, time.After(most)
	for {
		publish()
		select {
		case n := <-a.notices:
			again = again || n.Subscribed
			if n.Payload == "again" && again {
				return time.Since(start)
			}
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			e.Fatalf("no message within %v (confirmed again: %v)", most, again)
		}
	}
}

// subscribers returns for each running node how many connections have
// subscriptions.
func (e *kindEnv) subscribers() map[string]int {
	counts := make(map[string]int)
	for _, s := range e.Servers() {
		if list, ok := s.Do("CLIENT", "LIST", "TYPE", "pubsub").(string); ok {
			if n := strings.Count(list, "\n"); n > 0 {
				counts[s.Addr()] = n
			}
		}
	}
	return counts
}

// subscriber returns the node that has the subscription of a channel.
func (e *kindEnv) subscriber(name string) *redistest.Server {
	e.Helper()
	list := "CHANNELS"
	if e.sharded {
		list = "SHARDCHANNELS"
	}
	for _, s := range e.Servers() {
		if found, _ := s.Do("PUBSUB", list, name).([]any); len(found) > 0 {
			return s
		}
	}
	e.Fatalf("no node has a subscription of %s", name)
	return nil
}

// left waits until no connection with subscriptions is left.
func (e *kindEnv) left() {
	e.Helper()
	ctx := await.Context(e, 10*time.Second)
	for len(e.subscribers()) > 0 {
		if ctx.Err() != nil {
			e.Fatalf("connections with subscriptions are left: %v", e.subscribers())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func closeAll(subs []redishold.Subscription) {
	for _, sub := range subs {
		sub.Close()
	}
}

// Who publishes at the node of a channel learns how many listen to it.
func TestClusterOneConnectionPerNode(t *testing.T) {
	eachKind(t, func(e *kindEnv) {
		names := e.keys(sized(1000, 200))
		ears, subs := e.listenAll(names)
		want, total := len(e.Masters()), 0
		for addr, n := range e.subscribers() {
			total += n
			if n != 1 {
				e.Errorf("%s has %d connections with subscriptions, want 1", addr, n)
			}
		}
		if total != want {
			e.Errorf("got %d connections with subscriptions, want %d", total, want)
		}
		for i := range 100 {
			if got := e.publishAt(i%2 == 0, names[i], names[i]); i%2 == 0 && got != any(int64(1)) {
				e.Errorf("%s was received by %v, want 1", names[i], got)
			}
		}
		for i := range 100 {
			ears[i].confirmed()
			ears[i].message(names[i])
			ears[i].silent()
		}
		closeAll(subs)
		e.left()
	})
}

// publishAt publishes at the node of a channel, or as publish does.
func (e *kindEnv) publishAt(home bool, name, payload string) any {
	if home && !e.sharded {
		return e.Master(name).Do("PUBLISH", name, payload)
	}
	return e.publish(name, payload)
}

func TestClusterLastCloseLeavesNothing(t *testing.T) {
	eachKindAlone(t, func(e *kindEnv) {
		names := e.keys(20)
		_, subs := e.listenAll(names) // makes what stays: connections of the client
		closeAll(subs)
		e.left()
		clients := func() int {
			n := 0
			for _, s := range e.Servers() {
				n += strings.Count(s.String("CLIENT", "LIST", "TYPE", "normal"), "\n")
				n += strings.Count(s.String("CLIENT", "LIST", "TYPE", "pubsub"), "\n")
			}
			return n
		}
		before, idle := goleak.IgnoreCurrent(), clients()
		for range 5 {
			_, subs := e.listenAll(names)
			closeAll(subs)
		}
		e.left()
		ctx := await.Context(e, 10*time.Second)
		for clients() > idle && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		if got := clients(); got > idle {
			e.Errorf("got %d connections, want no more than the %d before", got, idle)
		}
		goleak.VerifyNone(e, before, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
	})
}

// What is subscribed in a slot that moves goes with it, however much that is, and nothing
// else is disturbed.
func TestClusterSlotMoves(t *testing.T) {
	eachKind(t, func(e *kindEnv) {
		names := e.keys(50)
		for i := range 100 {
			names = append(names, fmt.Sprintf("%d{%s}", i, names[0]))
		}
		ears, subs := e.listenAll(names)
		for _, a := range ears {
			a.confirmed()
		}
		for range 2 { // there and back
			for i := range 3 {
				e.migrate(names[i], ears[i])
			}
			for _, a := range ears[50:] {
				if e.sharded {
					a.confirmed()
				}
			}
		}
		for i, a := range ears {
			e.publish(names[i], "undisturbed")
			a.message("undisturbed")
			a.silent()
		}
		closeAll(subs)
		e.left()
	})
}

// migrate moves the slot of name while a listens on it.
func (e *kindEnv) migrate(name string, a *ear) {
	e.Helper()
	from := e.Master(name)
	to := e.Masters()[0]
	if to.Addr() == from.Addr() {
		to = e.Masters()[1]
	}
	m, err := e.MigrateSlot(redistest.Slot(name), to)
	if err != nil {
		e.Fatal(err)
	}
	e.publish(name, "meanwhile")
	a.message("meanwhile")
	start := await.NewWatch(e)
	if err := m.Finish(); err != nil {
		e.Fatal(err)
	}
	if e.sharded {
		a.confirmed()
		if took := start.Took(); took > 2*time.Second {
			e.Errorf("restored %v after the slot had moved", took)
		}
	}
	e.publish(name, "moved")
	a.message("moved")
	a.silent()
}

func TestClusterMasterDies(t *testing.T) { eachFault(t, (*redistest.Server).Kill) }

func TestClusterNodeFreezes(t *testing.T) { eachFault(t, (*redistest.Server).Pause) }

// eachFault strikes the node of a subscription for every adapter, with channels of all kinds.
func eachFault(t *testing.T, strike func(*redistest.Server)) {
	t.Helper()
	await.NotShort(t, "takes long")
	t.Parallel()
	d := redistest.StartDeployment(t, redistest.Cluster)
	kinds := []redishold.Channel{{}}
	if redistest.Has(t, redistest.ShardedChannels) {
		kinds = append(kinds, redishold.Channel{Sharded: true})
	}
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) { openIn(t, d, adapter).fault(kinds, strike) })
	}
}

// fault strikes the node of a subscription of each kind.
func (e *clusterEnv) fault(kinds []redishold.Channel, strike func(*redistest.Server)) {
	names := e.keys(60)
	type listener struct {
		*kindEnv
		ears []*ear
		subs []redishold.Subscription
	}
	var all []listener
	for _, kind := range kinds {
		l := listener{kindEnv: &kindEnv{e, kind, kind.Sharded}}
		l.ears, l.subs = l.listenAll(names)
		for _, a := range l.ears {
			a.confirmed()
		}
		all = append(all, l)
	}
	victim := all[0].subscriber(names[0])
	var hit, spared []int
	for i, name := range names {
		if e.Master(name).Addr() == victim.Addr() {
			hit = append(hit, i)
		} else {
			spared = append(spared, i)
		}
	}
	strike(victim)
	for _, l := range all {
		for _, i := range spared {
			l.publish(names[i], "undisturbed")
			l.ears[i].message("undisturbed")
		}
	}
	for _, l := range all {
		for _, i := range hit {
			took := l.hear(l.ears[i], restoreLimit, func() { l.publish(names[i], "again") })
			if i == hit[0] {
				e.Logf("%+v: restored after %v", l.kind, took)
			}
		}
	}
	if err := e.Heal(); err != nil {
		e.Fatal(err)
	}
	for _, l := range all {
		closeAll(l.subs)
	}
	all[0].left()
}

func TestClusterNodeJoinsAndLeaves(t *testing.T) {
	eachKind(t, func(e *kindEnv) {
		a, sub := e.listen(e.key(1))
		s, err := e.AddNode()
		if err != nil {
			e.Fatal(err)
		}
		m, err := e.MigrateSlot(redistest.Slot(e.key(1)), s)
		if err != nil {
			e.Fatal(err)
		}
		if err := m.Finish(); err != nil {
			e.Fatal(err)
		}
		if e.sharded {
			a.confirmed()
		}
		e.publish(e.key(1), "joined")
		a.message("joined")
		b, other := e.listen(e.key(2))
		if err := e.RemoveNode(s); err != nil {
			e.Fatal(err)
		}
		if e.sharded { // perhaps twice: a master without slots becomes a replica, and serves the channel as that
			e.hear(a, restoreLimit, func() { e.publish(e.key(1), "again") })
		} else {
			e.publish(e.key(1), "left")
			a.message("left")
		}
		e.publish(e.key(2), "left")
		b.message("left")
		sub.Close()
		other.Close()
		e.left()
	})
}

// A node that was taken out of the cluster, but still runs, hears nothing any
// more, and does not say so.
func TestClusterForgottenNodeIsLeft(t *testing.T) {
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, redistest.Cluster) // which will not be whole again
			conn, closeConn, err := dial.Open(await.Context(t, 10*time.Second), dial.To(adapter, d))
			if err != nil {
				t.Fatal(err)
			}
			defer closeConn()
			e := &kindEnv{clusterEnv: &clusterEnv{T: t, Deployment: d, adapter: adapter, conn: conn}}
			a, sub := e.listen("c")
			defer sub.Close()
			victim := e.subscriber("c")
			if err := d.FailOver(e.keysOf(victim, 1, false)[0]); err != nil { // it leaves without its slots
				t.Fatal(err)
			}
			rest := e.expel(victim)
			if took := e.hear(a, 20*time.Second, func() { rest.Do("PUBLISH", "c", "again") }); took > 15*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// expel has all other nodes forget one, which forgets them as well, and returns
// one of the others.
func (e *kindEnv) expel(victim *redistest.Server) (rest *redistest.Server) {
	e.Helper()
	id := victim.String("CLUSTER", "MYID")
	for _, s := range e.Servers() {
		if s.Addr() == victim.Addr() {
			continue
		}
		rest = s
		if reply := s.Do("CLUSTER", "FORGET", id); reply != "OK" {
			e.Fatalf("CLUSTER FORGET: got %v", reply)
		}
	}
	if reply := victim.Do("CLUSTER", "RESET"); reply != "OK" {
		e.Fatalf("CLUSTER RESET: got %v", reply)
	}
	return rest
}

// The server counts the listeners of a Conn as one, at the node of the channel. The Conn counts
// all of them.
func TestClusterListenersAreCounted(t *testing.T) {
	eachKind(t, func(e *kindEnv) {
		counter := e.conn.(redishold.ListenerCounter)
		name := e.keys(1)[0]
		var ears []*ear
		var subs []redishold.Subscription
		for i := range 3 {
			if got := counter.Listeners(e.channel(name)); got != i {
				e.Errorf("got %d listeners, want %d", got, i)
			}
			a, sub := e.listen(name)
			ears, subs = append(ears, a), append(subs, sub)
		}
		if got := e.publishAt(true, name, "all"); got != any(int64(1)) {
			e.Errorf("the server counts %v receivers, want 1", got)
		}
		for _, a := range ears {
			a.message("all")
		}
		subs[0].Close()
		if got := counter.Listeners(e.channel(name)); got != 2 {
			e.Errorf("got %d listeners after one has left, want 2", got)
		}
		closeAll(subs[1:])
		if got := counter.Listeners(e.channel(name)); got != 0 {
			e.Errorf("got %d listeners after the last has left, want 0", got)
		}
	})
}
