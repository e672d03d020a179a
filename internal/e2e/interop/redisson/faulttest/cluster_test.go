package faulttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// Locks in a cluster, where versions of Redisson differ in how they publish.
func TestCluster(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Cluster, []redisson.Case{
		{Name: "53 one release wakes old and new versions", Run: allVersionsWake},
	})
}

// group is one JVM of those that wait together.
type group struct {
	redisson.Thread
	what    string // version, and for the one that probes how that went
	sharded bool   // how it listens
}

// groups starts a JVM of each behaviour on the cluster, besides that of b.
func groups(t *testing.T, b *redisson.Bench) []group {
	t.Helper()
	all := []group{{redisson.ThreadOf(t, b.Java, "c53"), b.Version, b.Version != redisson.Classic}}
	start := func(what, version string, sharded bool, s redisson.Settings) {
		java := redisson.Start(t, version, s)
		b.WarmUp(java)
		all = append(all, group{redisson.ThreadOf(t, java, "c53"), what, sharded})
	}
	if b.Version == redisson.Newest {
		for _, mode := range []string{"ON", "OFF"} {
			s := redisson.On(b.Deployment)
			s.ShardedSubscriptionMode = mode
			start(b.Version+", shardedSubscriptionMode "+mode, b.Version, mode == "ON", s)
		}
	}
	// The probe goes to the first address that answers, and succeeds only at the
	// node that has slot 0.
	owner, other := owners(b.Deployment)
	for _, sharded := range []bool{true, false} {
		s := redisson.On(b.Deployment)
		first, what := other, redisson.Probing+", probe failed"
		if sharded {
			first, what = owner, redisson.Probing+", probe succeeded"
		}
		s.Addresses = append([]string{"redis://" + first}, s.Addresses...)
		start(what, redisson.Probing, sharded, s)
	}
	for _, version := range []string{redisson.Classic, redisson.Newest} {
		if version != b.Version {
			start(version, version, version != redisson.Classic, redisson.On(b.Deployment))
		}
	}
	return all
}

// owners returns the address of the node that has slot 0, and of one that has not.
func owners(d *redistest.Deployment) (owner, other string) {
	key := ""
	for i := 0; redistest.Slot(key) != 0 || key == ""; i++ {
		key = fmt.Sprint(i)
	}
	owner = d.Master(key).Addr()
	for _, s := range d.Masters() {
		if s.Addr() != owner {
			other = s.Addr()
		}
	}
	return owner, other
}

// awaitListening wants each group to listen in its own way.
func awaitListening(t *testing.T, b *redisson.Bench, channel string, all []group) {
	t.Helper()
	redisson.Await(t, fmt.Sprintf("%d listeners of %s", len(all), channel), listening(t, b, channel, all, 0))
}

// listening reports whether each group listens in its own way, and Go as often as said in
// both.
func listening(t *testing.T, b *redisson.Bench, channel string, all []group, locker int64) func() bool {
	t.Helper()
	classic, sharded := locker, locker
	for _, g := range all {
		if g.sharded {
			sharded++
		} else {
			classic++
		}
	}
	return func() bool {
		var c, s int64
		for _, server := range b.Deployment.Servers() {
			c += redisson.Listeners(server.Admin, channel)
			s += redisson.ShardedListeners(server.Admin, channel)
		}
		return c == classic && s == sharded
	}
}

func allVersionsWake(t *testing.T, b *redisson.Bench) {
	all := groups(t, b)
	for _, adapter := range []string{"rueidis", "goredis"} {
		store := b.Through(adapter, redishold.Options{})
		l := b.Over(store, 10*time.Second)
		readersWake(t, b, l, all)
		semaphoreWakes(t, b, store, all)
		latchWakes(t, b, l, all)
		for _, g := range all {
			bothWake(t, b, l, g)
		}
	}
	classicAndSharded(t, b, all)
}

// readersWake has one release of a write lock let in all readers.
func readersWake(t *testing.T, b *redisson.Bench, l *holdfast.Locker, all []group) {
	t.Helper()
	name := "case53:rw"
	writer, err := l.RWMutex(name).Write.Lock(t.Context())
	must(t, err)
	var waits []redisson.Answer
	for _, g := range all {
		waits = append(waits, g.Begin(peer.Command{Op: "lock", Kind: "read", Name: name}))
	}
	reader := redisson.Later(t, "Go reads", func(ctx context.Context) (*holdfast.Lock, error) { return l.RWMutex(name).Read.Lock(ctx) })
	asleep(all)
	redisson.AwaitGo(t, b.Deployment.Master(name).Admin, "rw_read_acquire", name, "a reader of Go", listening(t, b, "redisson_rwlock:{"+name+"}", all, 1))
	began := await.NewWatch(t)
	must(t, writer.Unlock())
	for i, g := range all {
		redisson.Woken(t, g.what+", reader", began, waits[i].Wait().Received)
	}
	lock, at := reader.Wait()
	redisson.Woken(t, "Go, reader", began, at)
	must(t, lock.Unlock())
	for _, g := range all {
		g.Do(peer.Command{Op: "unlock", Kind: "read", Name: name})
	}
}

// asleep returns when all sleep in what they wait for.
func asleep(all []group) {
	for _, g := range all {
		g.AwaitSleep()
	}
}

// semaphoreWakes releases as many permits at once as there are groups.
func semaphoreWakes(t *testing.T, b *redisson.Bench, store *redishold.Backend, all []group) {
	t.Helper()
	name := "case53:semaphore"
	s := store.PlainSemaphore(name)
	_, err := s.TrySet(t.Context(), 0)
	must(t, err)
	var waits []redisson.Answer
	for _, g := range all {
		waits = append(waits, g.Begin(peer.Command{Op: "acquire", Kind: "semaphore", Name: name, N: 1}))
	}
	asleep(all)
	awaitListening(t, b, "redisson_sc:{"+name+"}", all)
	began := await.NewWatch(t)
	must(t, s.Release(t.Context(), len(all)))
	for i, g := range all {
		redisson.Woken(t, g.what+", permit", began, waits[i].Wait().Received)
	}
	if n := b.Deployment.Master(name).Do("DEL", name); n != int64(1) {
		t.Errorf("the semaphore is gone: %v", n)
	}
}

func latchWakes(t *testing.T, b *redisson.Bench, l *holdfast.Locker, all []group) {
	t.Helper()
	name := "case53:latch"
	latch := l.CountDownLatch(name)
	_, err := latch.TrySet(t.Context(), 1)
	must(t, err)
	var waits []redisson.Answer
	for _, g := range all {
		waits = append(waits, g.Begin(peer.Command{Op: "await", Kind: "latch", Name: name, Wait: 20000}))
	}
	asleep(all)
	awaitListening(t, b, "redisson_countdownlatch__channel__{"+name+"}", all)
	began := await.NewWatch(t)
	must(t, latch.CountDown(t.Context()))
	for i, g := range all {
		redisson.Woken(t, g.what+", latch", began, waits[i].Wait().Received)
	}
}

// bothWake hands an RLock from Go to a group, and back.
func bothWake(t *testing.T, b *redisson.Bench, l *holdfast.Locker, g group) {
	t.Helper()
	lock := take(t, l, b.Name)
	waits := g.Begin(lockOf("lock", b.Name, time.Minute))
	g.AwaitSleep()
	awaitListening(t, b, channel(b.Name), []group{g})
	began := await.NewWatch(t)
	must(t, lock.Unlock())
	redisson.Woken(t, g.what+", RLock", began, waits.Wait().Received)
	awaitListening(t, b, channel(b.Name), nil)
	next := waitFor(t, l, b.Name)
	redisson.AwaitGo(t, b.Admin(), "acquire", b.Name, "a waiter of Go", listening(t, b, channel(b.Name), nil, 1))
	began = await.NewWatch(t)
	g.Do(lockOf("unlock", b.Name, 0))
	lock, at := next.Wait()
	redisson.Woken(t, "Go, by "+g.what, began, at)
	must(t, lock.Unlock())
	awaitListening(t, b, channel(b.Name), nil)
}

// sleepsOn wants a waiter to sleep on after the unlock of a lock with that lease. It
// returns false if the unlock was too late to tell the end of the lease from a message.
func sleepsOn(t *testing.T, name string, holder, waiter group, lease time.Duration) bool {
	t.Helper()
	holder.Do(lockOf("lock", name, lease))
	took := time.Now()
	waits := waiter.Begin(lockOf("lock", name, time.Minute))
	waiter.AwaitSleep()
	unlock := holder.Try(lockOf("unlock", name, 0))
	unlocked := time.Now()
	after := waits.Wait().Received.Sub(unlocked)
	waiter.Do(lockOf("unlock", name, 0))
	if unlocked.Sub(took) > lease/2 {
		return false
	}
	must(t, unlock.Err())
	if after < lease/4 {
		t.Errorf("%s had the lock %v after %s released it: what was observed is no longer so", waiter.what, after, holder.what)
	}
	t.Logf("%s had the lock %v after %s gave it back", waiter.what, after, holder.what)
	return true
}

// classicAndSharded shows that two JVMs that publish in different ways do not hear
// each other.
func classicAndSharded(t *testing.T, b *redisson.Bench, all []group) {
	t.Helper()
	const lease = 2 * time.Second
	var classic, sharded group
	for _, g := range all {
		if g.sharded {
			sharded = g
		} else {
			classic = g
		}
	}
	for _, pair := range [][2]group{{classic, sharded}, {sharded, classic}} {
		for range 3 { // on a machine that may be too slow
			if sleepsOn(t, b.Name, pair[0], pair[1], lease) {
				break
			}
		}
	}
	t.Attr("observed", fmt.Sprintf("in a cluster %s (classic channels) and %s (sharded channels) do not wake each other: a waiter sleeps until the lease of %v would have ended; Go wakes both and is woken by both",
		classic.what, sharded.what, lease))
}
