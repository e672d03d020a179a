package faulttest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// leaseOnTheMove is that of Go's locks.
const leaseOnTheMove = 4 * time.Second

// A slot moves while its lock is held and waited for.
func TestMigration(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Cluster, []redisson.Case{
		{Name: "54 the slot moves while Java and Go wait", Run: slotMoves},
	})
}

func slotMoves(t *testing.T, b *redisson.Bench) {
	m := &move{t: t, b: b, holder: b.Locker(leaseOnTheMove), waiter: b.Over(b.Through("goredis", redishold.Options{}), leaseOnTheMove)}
	m.heldByJava("case54:java")
	m.unlockedBetween("case54:between")
	m.unlockedAfter("case54:after")
	m.again("case54:after")
}

// move is what the parts of the case share.
type move struct {
	t              *testing.T
	b              *redisson.Bench
	holder, waiter *holdfast.Locker
}

// heldByJava moves the slot under a lock of Java, for which Go waits.
func (m *move) heldByJava(name string) {
	m.t.Helper()
	j := redisson.ThreadOf(m.t, m.b.Java, "c54-holder")
	j.Do(lockOf("lock", name, 0))
	goWaits := passing(m.t, m.waiter, name)
	m.goSleeps(name, 1)
	slot := m.begin(name)
	must(m.t, slot.Move(name))
	must(m.t, slot.Finish())
	if !goWaits.Waits() {
		m.t.Fatal("Go has a lock that Java holds")
	}
	tried(m.t, j, lockOf("unlock", name, 0))
	began := time.Now() // Java may have to find the server again first
	at, _ := goWaits.Wait()
	m.t.Logf("held by Java: Go had it after %v", at.Sub(began))
	if took := at.Sub(began); took > 3*time.Second {
		m.t.Errorf("held by Java: Go had the lock after %v, want 3s at most", took)
	}
}

// unlockedAfter has the lock released after its slot has moved.
func (m *move) unlockedAfter(name string) {
	m.t.Helper()
	j := redisson.ThreadOf(m.t, m.b.Java, "c54-after")
	lock := take(m.t, m.holder, name)
	javaWaits, goWaits := j.Begin(lockOf("lock", name, 0)), passing(m.t, m.waiter, name)
	j.AwaitSleep()
	m.goSleeps(name, 2)
	before := map[string]int64{} // listeners, by node
	for _, s := range m.b.Deployment.Servers() {
		before[s.Addr()] = redisson.Listeners(s.Admin, channel(name))
	}
	must(m.t, m.begin(name).Finish())
	if err := lock.Err(); err != nil {
		m.t.Fatalf("the hold while its slot moved: %v", err)
	}
	if m.sharded() {
		time.Sleep(2 * time.Second) // four times as long as Redisson takes to see that a slot moved
		if n := m.listeners(name); n != 1 {
			m.t.Errorf("%d clients listen at the new node, want Go alone: what was observed is no longer so", n)
		}
	} else {
		// Java subscribes at the new node then, and hears no message in between; Go stays.
		to := m.b.Deployment.Master(name)
		redisson.Await(m.t, "Java listens at the new node, and Go still", func() bool {
			return redisson.Listeners(to.Admin, channel(name)) == before[to.Addr()]+1 && m.listeners(name) == 2
		})
	}
	began := time.Now()
	must(m.t, lock.Unlock())
	m.both("after the move", j, javaWaits, goWaits, began, name)
}

// unlockedBetween has the lock released while it is at the new node, and other
// keys of its slot are at the old one.
func (m *move) unlockedBetween(name string) {
	m.t.Helper()
	j := redisson.ThreadOf(m.t, m.b.Java, "c54-between")
	lock := take(m.t, m.holder, name)
	javaWaits, goWaits := j.Begin(lockOf("lock", name, 0)), passing(m.t, m.waiter, name)
	j.AwaitSleep()
	m.goSleeps(name, 2)
	slot := m.begin(name)
	must(m.t, slot.Move(name))
	began := time.Now()
	must(m.t, lock.Unlock())
	must(m.t, slot.Finish())
	m.both("during the move", j, javaWaits, goWaits, began, name)
}

// again has Java wait once more for a lock whose slot moved while it waited.
func (m *move) again(name string) {
	m.t.Helper()
	j := redisson.ThreadOf(m.t, m.b.Java, "c54-again")
	lock := take(m.t, m.holder, name)
	waits := j.Begin(lockOf("lock", name, 0))
	if m.sharded() {
		if r := waits.Ended(); r.Class != "org.redisson.client.RedisTimeoutException" {
			m.t.Errorf("Java's next wait: got %v: what was observed is no longer so", r.Err())
		} else {
			m.t.Log(r.Err())
		}
		must(m.t, lock.Unlock())
		m.t.Attr("observed", "where a slot moves while a thread waits on a sharded channel, Redisson does not subscribe at the new node: the thread sleeps to the end of the lease that it saw, and later waits of that JVM for that name fail with RedisTimeoutException (unable to acquire subscription lock after 7500ms); Go subscribes again")
		return
	}
	j.AwaitSleep()
	began := await.NewWatch(m.t)
	must(m.t, lock.Unlock())
	redisson.Woken(m.t, "Java, which waits again", began, waits.Wait().Received)
	tried(m.t, j, lockOf("unlock", name, 0))
}

// goSleeps returns when Go sleeps until a notice, and so many listen in all.
func (m *move) goSleeps(name string, all int64) {
	m.t.Helper()
	redisson.AwaitGo(m.t, m.b.Deployment.Master(name).Admin, "acquire", name, "Go listens", func() bool { return m.listeners(name) == all })
}

// sharded reports that this version listens on sharded channels.
func (m *move) sharded() bool { return m.b.Version != redisson.Classic }

// listeners counts those that listen for the unlock of name as Java does.
func (m *move) listeners(name string) int64 {
	var n int64
	for _, s := range m.b.Deployment.Servers() {
		if m.sharded() {
			n += redisson.ShardedListeners(s.Admin, channel(name))
		} else {
			n += redisson.Listeners(s.Admin, channel(name))
		}
	}
	return n
}

// begin opens the move of a lock's slot to another node.
func (m *move) begin(name string) *redistest.Migration {
	m.t.Helper()
	from, to := m.b.Deployment.Master(name), m.b.Deployment.Masters()[0]
	if to.Addr() == from.Addr() {
		to = m.b.Deployment.Masters()[1]
	}
	slot, err := m.b.Deployment.MigrateSlot(redistest.Slot(name), to)
	must(m.t, err)
	return slot
}

// passing has a goroutine wait for the lock and release it at once. It says
// when it had it.
func passing(t *testing.T, l *holdfast.Locker, name string) *redisson.Pending[time.Time] {
	return redisson.Later(t, "Go, Lock "+name, func(ctx context.Context) (time.Time, error) {
		lock, err := l.Lock(ctx, name)
		if err != nil {
			return time.Time{}, err
		}
		return time.Now(), lock.Unlock()
	})
}

// both wants Java and Go to have the lock one after the other: within the lease
// of the former holder, until which Java may sleep where the move has cut it off
// from the channel.
func (m *move) both(when string, j redisson.Thread, javaWaits redisson.Answer, goWaits *redisson.Pending[time.Time], began time.Time, name string) {
	m.t.Helper()
	reply := javaWaits.Wait()
	tried(m.t, j, lockOf("unlock", name, 0))
	unlocked := time.Now() // Java may have to find the server again first
	goAt, _ := goWaits.Wait()
	javaTook, goTook := reply.Received.Sub(began), goAt.Sub(began)
	if goAt.After(reply.Received) {
		goTook = goAt.Sub(unlocked)
	}
	m.t.Logf("%s: Java had it after %v, Go after %v", when, javaTook, goTook)
	most := leaseOnTheMove + 2*time.Second
	if !m.sharded() {
		most = 2 * time.Second // by a message
	}
	if javaTook > most {
		m.t.Errorf("%s: Java had the lock after %v, want %v at most", when, javaTook, most)
	}
	if most := 3 * time.Second; goTook > most {
		m.t.Errorf("%s: Go had the lock after %v, want %v at most", when, goTook, most)
	}
}
