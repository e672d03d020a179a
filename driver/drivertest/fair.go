package drivertest

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// fairClaim returns a new fair claim on the name p.Name.
func (p *probe) fairClaim() driver.Claim {
	c := p.Claim()
	c.Fair = true
	return c
}

// queued returns a fair claim that holds, and a queue of n fair claims that were tried after it,
// one after the other, and refused.
func (p *probe) queued(n int) (holder driver.Claim, queue []driver.Claim) {
	p.Helper()
	holder = p.fairClaim()
	p.MustGrant(holder, "of a free name")
	for range n {
		c := p.fairClaim()
		p.MustRefuse(c, "of a held name")
		queue = append(queue, c)
	}
	return holder, queue
}

func fairGrantsInOrderOfArrival(p *probe) {
	holder, queue := p.queued(4)
	for i, next := range queue {
		p.MustRelease(holder, "of the holder")
		for j := len(queue) - 1; j > i; j-- {
			p.MustRefuse(queue[j], "of a free name by a claim that is not the first of the queue")
		}
		p.MustGrant(next, "of a free name by the first of the queue")
		holder = next
	}
	p.MustRelease(holder, "of the last of the queue")
	p.MustGrant(p.fairClaim(), "of a free name when the queue is empty")
}

func fairTryKeepsOnePlace(p *probe) {
	holder, queue := p.queued(2)
	first, second := queue[0], queue[1]
	for range 4 { // the claim must neither go to the end of the queue nor enter it twice
		p.MustRefuse(first, "repeated by the first of the queue")
	}
	p.MustRelease(holder, "of the holder")
	p.MustRefuse(second, "by the second of the queue")
	p.MustGrant(first, "by the first of the queue, which tried often")
	p.MustGrant(first, "repeated by the holder")
	p.MustRelease(first, "of the first of the queue")
	p.MustGrant(second, "by the second of the queue, after a claim that tried often")
	p.MustRelease(second, "of the second of the queue")
	p.MustGrant(p.fairClaim(), "of a free name when the queue is empty")
}

func fairRefusesToOvertake(p *probe) {
	holder, queue := p.queued(1)
	p.MustRelease(holder, "of the holder")
	for range 2 {
		p.mustTurnAway(p.fairClaim(), "of a free name for which another claim is queued")
	}
	p.MustGrant(queue[0], "of a free name by the first of the queue")
}

// fairQueuesWhoWaits tries some claims with NoQueue and some without. A claim with NoQueue must
// not be granted before a claim in the queue. A claim in the queue must not wait for a claim
// with NoQueue.
func fairQueuesWhoWaits(p *probe) {
	holder, passing, next := p.fairClaim(), p.fairClaim(), p.fairClaim()
	passing.NoQueue = true
	p.MustGrant(holder, "of a free name")
	if p.MustRefuse(passing, "of a held name, with NoQueue").Queued {
		p.Fatalf("Try with NoQueue: got Queued, want no place in the queue")
	}
	if !p.MustRefuse(next, "of a held name").Queued {
		p.Fatalf("Try without NoQueue: got no Queued, want a place in the queue")
	}
	p.MustRelease(holder, "of the holder")
	late := p.fairClaim()
	late.NoQueue = true
	p.MustRefuse(late, "with NoQueue, of a free name for which another claim is queued")
	p.MustGrant(next, "of a free name by the first of the queue")
	p.MustRelease(next, "of the holder")
	last := p.fairClaim()
	p.MustGrant(last, "when no claim is left in the queue, after claims with NoQueue")
	p.MustRelease(last, "of the holder")
	p.MustGrant(late, "of a free name, with NoQueue")
}

func fairGiveUpLeavesTheQueue(p *probe) {
	holder, queue := p.queued(4)
	p.MustRelease(queue[1], "of a claim in the middle of the queue")
	p.MustNotRelease(queue[1], "of a claim that has left the queue, repeated")
	p.MustRelease(indeterminate(queue[0]), "of the first of the queue, with Indeterminate")
	p.MustRenew(holder, "of the holder, after other claims left the queue")
	p.MustRelease(holder, "of the holder")
	p.MustRefuse(queue[3], "by the last of the queue")
	p.MustGrant(queue[2], "by the first that is still in the queue")
	if p.has(tombstones) {
		if o, err := p.b.Try(p.Ctx, queue[0]); err == nil && o.Granted {
			p.Fatalf("Try after an indeterminate Release from the queue: granted, want no grant")
		}
	}
	p.MustRelease(queue[2], "of the holder")
	p.MustGrant(queue[3], "by the last of the queue")
	p.MustRelease(queue[3], "of the last of the queue")
	p.MustGrant(p.fairClaim(), "of a free name, after a late try of a claim that gave up")
}

// fairRenewKeepsThePlace renews a waiting claim, and does not try that claim again. It does so
// for longer than a store keeps the place of a waiter that makes no calls. The waiting claim
// must be granted before a claim that came later. The renewal of a claim that has left the
// queue must return driver.ErrGone.
func fairRenewKeepsThePlace(p *probe) {
	holder, queue := p.queued(1)
	for began := time.Now(); time.Since(began) < p.presence+prompt; pause(p.Ctx, time.Second) {
		p.MustRenew(holder, "of the holder")
		p.MustRenew(queue[0], "of a claim in the queue")
	}
	late := p.fairClaim()
	p.MustRefuse(late, "of a held name")
	p.MustRelease(holder, "of the holder")
	p.MustRefuse(late, "by a claim that came later than a claim that renews its place")
	p.MustGrant(queue[0], "by the first of the queue, which has renewed its place")
	p.Withdraw(late)
	p.MustNotRenew(late, "of a claim that has left the queue")
}

// fairGoneWaiterDoesNotBlock has three waiters. The first waiter makes no more calls, the
// second waiter tries repeatedly, and the third waiter comes later. The second waiter must keep
// its place before the third waiter. It must get the lock when the store has removed the first
// waiter from the queue.
func fairGoneWaiterDoesNotBlock(p *probe) {
	holder, gone, alive, late := p.fairClaim(), p.unrenewed(p.fairClaim()), p.fairClaim(), p.fairClaim()
	p.MustGrant(holder, "of a free name")
	p.MustRefuse(gone, "of a held name")
	p.MustRefuse(alive, "of a held name")
	p.MustRelease(holder, "of the holder")
	granted := retryWithin(p.presence+prompt, func() bool {
		p.MustRefuse(late, "by a claim that came later than a live waiter")
		if p.Try(alive).Granted {
			return true
		}
		pause(p.Ctx, 200*time.Millisecond)
		return false
	})
	if !granted {
		p.Fatalf("Try behind a waiter that is gone: still refused after %v", p.presence+prompt)
	}
	p.MustRelease(alive, "of the holder")
	p.MustGrant(late, "by the claim that came last")
}

func fairHolderExpiresAlone(p *probe) {
	dead := p.unrenewed(p.fairClaim())
	start := time.Now()
	p.MustGrant(dead, "of a free name")
	granted := time.Now()
	first, second := p.fairClaim(), p.fairClaim()
	p.mustRefuseBeside(first, start, "of a held name")
	p.mustRefuseBeside(second, start, "of a held name")
	p.MustGrantBy(first, granted.Add(p.lapse()), "by the first of the queue after the lease")
	p.MustNotRenew(dead, "of an expired claim")
	p.MustRefuse(second, "by the second of the queue")
}

func fairWakesTheFirst(p *probe) {
	holder, queue := p.queued(3)
	p.wakes("release of the holder", func() { p.MustRelease(holder, "of the holder") }, queue[0])

	// The first claim of the queue gives up instead of taking the lock for which it was woken.
	p.wakes("first of the queue to give up", func() { p.MustRelease(queue[0], "of the first of the queue") }, queue[1])
	p.MustGrant(queue[1], "by the first of the queue, after a claim that gave up")
	p.wakes("release of the holder", func() { p.MustRelease(queue[1], "of the holder") }, queue[2])
	p.MustGrant(queue[2], "by the last of the queue")
}
