package ordertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Holdfast's deadlines come from the server's clock and Redisson's from its own,
// so it is the server's that is shifted. What the clock of a Go program says goes
// nowhere.

func serverAhead(t *testing.T, shared *redisson.Bench) {
	b := shared.Alone(redistest.ShiftableClock())
	b.Deployment.Servers()[0].ShiftClock(30 * time.Second)
	java := jvm(t, b, nil)
	q := queueOf(t, b)
	locker := b.Locker(longTTL)
	holder := inJava(t, b, java, "fair", "c36-a").has()
	workers := []*worker{
		inJava(t, b, java, "fair", "c36-b"), inGo(t, b, locker.FairMutex(b.Name)),
		inJava(t, b, java, "fair", "c36-d"), inGo(t, b, locker.FairMutex(b.Name)),
	}
	var owners []string
	for n, w := range workers {
		w.wait()
		owners = append(owners, q.joined(n+1))
	}
	for range 2 { // calls of both languages, which drop whom they think dead
		q.polled(owners[1])
		java.Do(peer.Command{Op: "tryLock", Kind: "fair", Name: b.Name, Thread: "c36-try"})
		q.want(owners...)
	}
	for n, w := range workers {
		holder.hand(w)
		q.want(owners[n+1:]...)
		holder = w
	}
	holder.unlock()
}

// A Java program whose clock is ahead of the server's takes the Go waiter at the
// head for dead if it is ahead by more than 4 s and what is left of the lease.
func serverBehind(t *testing.T, shared *redisson.Bench) {
	b := shared.Alone(redistest.ShiftableClock())
	clock := b.Deployment.Servers()[0]
	clock.ShiftClock(-3 * time.Second)
	java := jvm(t, b, nil)
	q := queueOf(t, b)
	locker := b.Locker(longTTL)
	enqueue := func(lease time.Duration) (holder, inGoFirst, inJavaNext *worker, owner string) {
		holder = inJavaFor(t, b, java, peer.Command{
			Op: "lock", Kind: "fair", Name: b.Name, Thread: "c36-a", Lease: lease.Milliseconds(),
		}).has()
		inGoFirst = inGo(t, b, locker.FairMutex(b.Name)).wait()
		owner = q.joined(1)
		q.polled(owner)
		return holder, inGoFirst, inJava(t, b, java, "fair", "c36-b").wait(), owner
	}

	holder, first, next, owner := enqueue(longTTL)
	nextOwner := q.joined(2)
	q.want(owner, nextOwner)
	holder.handAfter(func() { q.polled(owner) }, first)
	first.hand(next)
	next.unlock()

	clock.ShiftClock(-30 * time.Second)
	holder, first, next, owner = enqueue(longTTL)
	redisson.Await(t, "the Go waiter is at the end of the queue", func() bool {
		owners := q.owners()
		return len(owners) == 2 && owners[1] == owner
	})
	q.joined(2)
	t.Attr("observed", fmt.Sprintf("a Java program whose clock is 30 s ahead of the server's dropped a live Go waiter from the head of the queue (lease %v); it went on at the end", longTTL))
	holder.hand(next)
	next.handAfter(func() { q.polled(owner) }, first)
	first.unlock()
}
