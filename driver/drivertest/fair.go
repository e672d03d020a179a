package drivertest

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// fairClaim returns a new fair claim on the check's name.
func (p *probe) fairClaim() driver.Claim {
	c := p.claim()
	c.Fair = true
	return c
}

// queued returns a fair claim that holds, and a queue of n fair claims that were tried after it,
// one after the other, and refused.
func (p *probe) queued(n int) (holder driver.Claim, queue []driver.Claim) {
	p.Helper()
	holder = p.fairClaim()
	p.mustGrant(holder, "of a free name")
	for range n {
		c := p.fairClaim()
		p.mustRefuse(c, "of a held name")
		queue = append(queue, c)
	}
	return holder, queue
}

func fairGrantsInOrderOfArrival(p *probe) {
	holder, queue := p.queued(4)
	for i, next := range queue {
		p.mustRelease(holder, "of the holder")
		for j := len(queue) - 1; j > i; j-- {
			p.mustRefuse(queue[j], "of a free name by one who is not the first")
		}
		p.mustGrant(next, "of a free name by the first of the queue")
		holder = next
	}
	p.mustRelease(holder, "of the last of the queue")
	p.mustGrant(p.fairClaim(), "of a free name when the queue is empty")
}

func fairTryKeepsOnePlace(p *probe) {
	holder, queue := p.queued(2)
	first, second := queue[0], queue[1]
	for range 4 { // the claim must neither go to the end of the queue nor enter it twice
		p.mustRefuse(first, "repeated by the first of the queue")
	}
	p.mustRelease(holder, "of the holder")
	p.mustRefuse(second, "by the second of the queue")
	p.mustGrant(first, "by the first of the queue, which tried often")
	p.mustGrant(first, "repeated by the holder")
	p.mustRelease(first, "of the first of the queue")
	p.mustGrant(second, "by the second of the queue, after one that tried often")
	p.mustRelease(second, "of the second of the queue")
	p.mustGrant(p.fairClaim(), "of a free name when the queue is empty")
}

func fairRefusesToOvertake(p *probe) {
	holder, queue := p.queued(1)
	p.mustRelease(holder, "of the holder")
	late := p.fairClaim()
	p.mustRefuse(late, "of a free name for which another is queued")
	p.withdraw(late)
	p.mustTurnAway(p.fairClaim(), "of a free name for which others are queued")
	p.mustGrant(queue[0], "of a free name by the first of the queue")
}

// fairQueuesWhoWaits tries claims with NoQueue between other claims. The claims with NoQueue
// must not be granted before the others, and the others must not wait for them.
func fairQueuesWhoWaits(p *probe) {
	holder, passing, next := p.fairClaim(), p.fairClaim(), p.fairClaim()
	passing.NoQueue = true
	p.mustGrant(holder, "of a free name")
	if p.mustRefuse(passing, "of a held name, with NoQueue").Queued {
		p.Fatalf("Try with NoQueue: got Queued, want no place in the queue")
	}
	if !p.mustRefuse(next, "of a held name").Queued {
		p.Fatalf("Try without NoQueue: got no Queued, want a place in the queue")
	}
	p.mustRelease(holder, "of the holder")
	late := p.fairClaim()
	late.NoQueue = true
	p.mustRefuse(late, "of a free name for which another is queued, with NoQueue")
	p.mustGrant(next, "of a free name by the first of the queue")
	p.mustRelease(next, "of the holder")
	last := p.fairClaim()
	p.mustGrant(last, "after claims with NoQueue, of which none is left")
	p.mustRelease(last, "of the holder")
	p.mustGrant(late, "of a free name, with NoQueue")
}

func fairGiveUpLeavesTheQueue(p *probe) {
	holder, queue := p.queued(4)
	p.mustRelease(queue[1], "of one in the middle of the queue")
	p.mustNotRelease(queue[1], "of one that has left the queue, repeated")
	p.mustRelease(indeterminate(queue[0]), "of the first of the queue, indeterminate")
	p.mustRenew(holder, "of the holder, after others left the queue")
	p.mustRelease(holder, "of the holder")
	p.mustRefuse(queue[3], "by the last of the queue")
	p.mustGrant(queue[2], "by the first that is still in the queue")
	if p.has(tombstones) {
		if o, err := p.b.Try(p.ctx, queue[0]); err == nil && o.Granted {
			p.Fatalf("Try after an indeterminate Release from the queue: granted, want no grant")
		}
	}
	p.mustRelease(queue[2], "of the holder")
	p.mustGrant(queue[3], "by the last of the queue")
	p.mustRelease(queue[3], "of the last of the queue")
	p.mustGrant(p.fairClaim(), "of a free name, after a late try of one that gave up")
}

// fairRenewKeepsThePlace renews a waiter, and does not try it, for longer than a store keeps the
// place of a waiter that makes no calls. The waiter must be granted before a claim that came
// later. The renewal of a claim that has left the queue must return driver.ErrGone.
func fairRenewKeepsThePlace(p *probe) {
	holder, queue := p.queued(1)
	for began := time.Now(); time.Since(began) < p.presence+prompt; pause(p.ctx, time.Second) {
		p.mustRenew(holder, "of the holder")
		p.mustRenew(queue[0], "of a claim in the queue")
	}
	late := p.fairClaim()
	p.mustRefuse(late, "of a held name")
	p.mustRelease(holder, "of the holder")
	p.mustRefuse(late, "by one who came later than another that renews")
	p.mustGrant(queue[0], "by the first of the queue, which has renewed its place")
	p.withdraw(late)
	p.mustNotRenew(late, "of one that has left the queue")
}

// fairGoneWaiterDoesNotBlock has one waiter that makes no more calls, a second one that tries
// repeatedly, and a third one that comes later. The second waiter must keep its place before the
// third one, and get the lock when the store has removed the first one from the queue.
func fairGoneWaiterDoesNotBlock(p *probe) {
	holder, gone, alive, late := p.fairClaim(), p.unrenewed(p.fairClaim()), p.fairClaim(), p.fairClaim()
	p.mustGrant(holder, "of a free name")
	p.mustRefuse(gone, "of a held name")
	p.mustRefuse(alive, "of a held name")
	p.mustRelease(holder, "of the holder")
	granted := retryWithin(p.presence+prompt, func() bool {
		p.mustRefuse(late, "by one who came later than another that is alive")
		if p.try(alive).Granted {
			return true
		}
		pause(p.ctx, 200*time.Millisecond)
		return false
	})
	if !granted {
		p.Fatalf("Try behind a waiter that is gone: still refused after %v", p.presence+prompt)
	}
	p.mustRelease(alive, "of the holder")
	p.mustGrant(late, "by one who came later, at last")
}

func fairHolderExpiresAlone(p *probe) {
	dead := p.unrenewed(p.fairClaim())
	start := time.Now()
	p.mustGrant(dead, "of a free name")
	granted := time.Now()
	first, second := p.fairClaim(), p.fairClaim()
	p.mustRefuseBeside(first, start, "of a held name")
	p.mustRefuseBeside(second, start, "of a held name")
	p.mustGrantBy(first, granted.Add(p.lapse()), "by the first of the queue after the lease")
	p.mustNotRenew(dead, "of an expired claim")
	p.mustRefuse(second, "by the second of the queue")
}

func fairWakesTheFirst(p *probe) {
	holder, queue := p.queued(3)
	p.wakes("release of the holder", func() { p.mustRelease(holder, "of the holder") }, queue[0])

	// The first gives up instead of taking the lock for which it was woken.
	p.wakes("first of the queue to give up", func() { p.mustRelease(queue[0], "of the first of the queue") }, queue[1])
	p.mustGrant(queue[1], "by the first of the queue, after one that gave up")
	p.wakes("release of the holder", func() { p.mustRelease(queue[1], "of the holder") }, queue[2])
	p.mustGrant(queue[2], "by the last of the queue")
}
