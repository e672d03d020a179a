package ordertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// calls returns how many scripts the server has run for clients.
func calls(admin redistest.Admin) int64 {
	stats := admin.CommandStats()
	return stats["eval"] + stats["evalsha"]
}

// A Go waiter that dies at the head holds the next one up until its deadline,
// which it has set again with every try: what is left of the lease, and 4 s.
func goHeadDies(t *testing.T, shared *redisson.Bench) {
	const lease = 8 * time.Second
	b := shared.Alone()
	q := queueOf(t, b)
	java := jvm(t, b, nil)
	dying := b.GoProcess("rueidis", longTTL)
	holder := inJavaFor(t, b, java, peer.Command{
		Op: "lock", Kind: "fair", Name: b.Name, Thread: "c31-a", Lease: lease.Milliseconds(),
	}).has()
	dying.Go(peer.Command{Op: "lock", Kind: "fair", Name: b.Name})
	owner := q.joined(1)
	next := inJava(t, b, java, "fair", "c31-b").wait()
	q.joined(2)
	q.polled(owner)

	dying.Kill()
	killed := time.Now() // before what is left is asked for: nobody has it earlier
	left := q.left(owner)
	if left > lease+5*time.Second {
		t.Fatalf("deadline of the dead: %v from now, want what is left of the lease and 4 s", left)
	}
	holder.unlock()
	before, freed := calls(q.admin), time.Now()
	took := next.granted().Sub(killed)
	sent := calls(q.admin) - before
	rate := float64(sent) / time.Since(freed).Seconds()
	between(t, fmt.Sprintf("Java waited for a dead Go waiter, whose deadline was %v away,", left), took, left-100*time.Millisecond, left+2*time.Second)
	// How fast it spins depends on the machine. Without spinning it sends one command.
	if spins := sent > 20; spins == (b.Version == redisson.Classic) {
		t.Errorf("a Java waiter on a free lock that is another's turn sent %d commands, %.0f a second", sent, rate)
	} else if spins {
		t.Attr("observed", fmt.Sprintf("a Java waiter behind a dead one, on a free lock, sends %.0f commands a second until the other's deadline", rate))
	}
	next.unlock()
	// Java does not know this key. It ends by itself.
	between(t, "TTL of what is left of the dead", pttl(q.admin, q.alive()), time.Hour, 25*time.Hour)
	q.admin.Int("DEL", q.alive())
}

// A Java waiter that dies at the head holds everybody up until its deadline.
// Holdfast does not hammer the server meanwhile.
func javaHeadDies(t *testing.T, shared *redisson.Bench) {
	const limit = 5 * time.Second
	b := shared.Alone()
	q := queueOf(t, b)
	java := jvm(t, b, nil)
	holder := inGo(t, b, b.Locker(2*time.Second).FairMutex(b.Name)).has()
	java.Go(peer.Command{Op: "tryLock", Kind: "fair", Name: b.Name, Wait: limit.Milliseconds()})
	owner := q.joined(1)
	next := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).wait()
	q.joined(2)

	java.Kill()
	holder.unlock()
	freed := time.Now() // before what is left is asked for: nobody has it earlier
	left := q.left(owner)
	before := calls(q.admin)
	took := next.granted().Sub(freed)
	made := calls(q.admin) - before
	between(t, fmt.Sprintf("Go waited for a dead Java waiter, whose deadline was %v away,", left), took, left-100*time.Millisecond, left+time.Second)
	// Every 75 to 100 ms, and more often in the last 100 ms only.
	if least, most := int64(left.Seconds()*5), int64(took.Seconds()*14)+15; made < least || made > most {
		t.Errorf("Go made %d calls in %v, want %d to %d", made, took, least, most)
	}
	t.Attr("observed", fmt.Sprintf("a dead Java waiter at the head held the free lock up for %v, until its deadline; Go asked %.0f times a second",
		took.Round(time.Millisecond), float64(made)/took.Seconds()))
	next.unlock()
}

// javaRotates holds the lock for longer than the lease and Java's wait. Java's own
// call drops the Java head that waited too long, which goes to the end; Go proves
// with every try that it lives.
func javaRotates(t *testing.T, b *redisson.Bench) {
	const wait = 2 * time.Second
	q := queueOf(t, b)
	java := jvm(t, b, func(s *redisson.Settings) { s.FairLockWaitTimeout = wait.Milliseconds() })
	options := redishold.Options{FairWait: wait}
	holder := inGo(t, b, b.Over(b.Backend(options), 2*time.Second).FairMutex(b.Name)).has()
	first := inJava(t, b, java, "fair", "c33-b").wait()
	firstOwner := q.joined(1)
	second := inGo(t, b, b.Over(b.Backend(options), longTTL).FairMutex(b.Name)).wait()
	secondOwner := q.joined(2)
	third := inJava(t, b, java, "fair", "c33-d").wait()
	thirdOwner := q.joined(3)

	began := time.Now()
	redisson.Await(t, "the Java head falls back", func() bool { return q.owners()[0] != firstOwner })
	t.Attr("observed", fmt.Sprintf("a live Java waiter was dropped from the head of the queue by its own call after %v, and went to its end", time.Since(began).Round(100*time.Millisecond)))
	if head := q.owners()[0]; head != secondOwner {
		t.Fatalf("head: got %s, want the Go waiter %s", head, secondOwner)
	}
	redisson.Await(t, "it queues again", func() bool { return len(q.owners()) == 3 })
	q.want(secondOwner, thirdOwner, firstOwner)
	holder.hand(second)
	second.unlock()
	third.granted()
	third.unlock()
	first.granted()
	first.unlock()
}

// javaSubtracts holds the lock until Go's first deadline is over but for the five
// minutes that the Java waiter before it takes off when it goes. Go has renewed it.
func javaSubtracts(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	const wait = 5 * time.Minute
	q := queueOf(t, b)
	holder := inGo(t, b, b.Locker(2*time.Second).FairMutex(b.Name)).has()
	first := inJava(t, b, b.Java, "fair", "c33-j").wait()
	q.joined(1)
	second := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).wait()
	secondOwner := q.joined(2)
	third := inJava(t, b, b.Java, "fair", "c33-k").wait()
	thirdOwner := q.joined(3)
	ends := q.deadline(secondOwner).Add(-wait)

	redisson.Await(t, "the first deadline of the Go waiter passes", func() bool { return q.now().After(ends.Add(time.Second)) })
	holder.hand(first)
	between(t, "Go's deadline when Java took its wait off", q.left(secondOwner), time.Second, wait)
	if redisson.ThreadOf(t, b.Java, "c33-l").Do(peer.Command{Op: "tryLock", Kind: "fair", Name: b.Name}).Bool() {
		t.Fatal("Java's tryLock got a lock that is held") // it also drops the dead at the head
	}
	q.want(secondOwner, thirdOwner)
	first.handAfter(func() { q.polled(secondOwner) }, second)
	second.hand(third)
	third.unlock()
}

// The entry of a Java waiter that was interrupted stays until its deadline.
func interrupted(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	const limit = 5 * time.Second
	q := queueOf(t, b)
	holder := inGo(t, b, b.Locker(2*time.Second).FairMutex(b.Name)).has()
	quitter := inJavaFor(t, b, b.Java, peer.Command{
		Op: "tryLock", Kind: "fair", Name: b.Name, Thread: "c35-b", Wait: limit.Milliseconds(),
	}).wait()
	owner := q.joined(1)
	next := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).wait()
	nextOwner := q.joined(2)

	redisson.ThreadOf(t, b.Java, "c35-by").Do(peer.Command{Op: "interrupt", Value: "c35-b"})
	if a := quitter.ended(); a.err == nil {
		t.Fatal("the interrupted waiter got the lock")
	} else {
		t.Log(a.err)
	}
	q.want(owner, nextOwner)
	holder.unlock()
	freed := time.Now() // before what is left is asked for: nobody has it earlier
	left := q.left(owner)
	took := next.granted().Sub(freed)
	between(t, fmt.Sprintf("Go waited for an interrupted Java waiter, whose deadline was %v away,", left), took, left-100*time.Millisecond, left+time.Second)
	t.Attr("observed", fmt.Sprintf("a Java waiter that was interrupted left its entry in the queue, which held the free lock up for %v, until its deadline", took.Round(time.Millisecond)))
	next.unlock()
}
