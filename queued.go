package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renew"
)

// queuedClaim is a claim that waits in a queue of a store with Info.SessionTTL. Such a
// store keeps the queue of a client for as long as the client renews something, and a
// client that only waits has nothing else. The Locker's scheduler renews it.
type queuedClaim struct {
	locker *Locker
	claim  driver.Claim
	ctx    context.Context // the caller's, until the place in the queue is lost
	lost   context.CancelFunc
	entry  renew.Entry
}

// keepPlace has the claim's place in the store's queue renewed, where that is needed.
func (a *acquisition) keepPlace(ctx context.Context) {
	l := a.locker
	switch {
	case l.info.SessionTTL == 0:
		return
	case a.inQueue != nil && a.inQueue.ctx.Err() == nil:
		return
	}
	a.leavePlace()
	q := &queuedClaim{locker: l, claim: a.claim}
	q.ctx, q.lost = context.WithCancel(ctx)
	a.inQueue = q
	l.renewals.Add(q, l.clock.Read(), l.info.SessionTTL, false)
}

// leavePlace ends the renewals of keepPlace.
func (a *acquisition) leavePlace() {
	if q := a.inQueue; q != nil {
		q.locker.renewals.Remove(q)
		q.lost()
		a.inQueue = nil
	}
}

// placeContext is ctx, until the place in the store's queue is lost: another try makes a
// new one.
func (a *acquisition) placeContext(ctx context.Context) context.Context {
	if a.inQueue != nil {
		return a.inQueue.ctx
	}
	return ctx
}

// Entry returns what the scheduler keeps of the claim.
func (q *queuedClaim) Entry() *renew.Entry { return &q.entry }

// Until returns an instant that does not come: who waits decides for how long.
func (q *queuedClaim) Until() clock.Instant { return clock.Longest }

// Claim returns the claim.
func (q *queuedClaim) Claim(clock.Instant) driver.Claim { return q.claim }

// Answered has nothing to record.
func (q *queuedClaim) Answered(_ clock.Moment, answer driver.Renewal) (renew.Report, bool) {
	return renew.Report{Item: q, Err: answer.Err}, q.ctx.Err() == nil
}

// Gone wakes the waiter, whose next try takes a new place.
func (q *queuedClaim) Gone(_ error, report func()) {
	q.locker.renewals.Remove(q)
	q.locker.background.Go(report)
	q.lost()
}

// Expired is not called.
func (q *queuedClaim) Expired(error) {}
