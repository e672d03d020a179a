package holdfast

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Where a store has no tombstones, a try that is cut off may be executed after the
// release that follows, and nobody would release what it was granted. No caller's
// context cuts it off, therefore: it runs in a goroutine and under a context of its own.
// A caller who gives up leaves it there, and what releases the claim waits for it.

// tryApart makes one attempt apart from ctx. The caller waits no longer than for wait,
// unless that is 0.
func (a *acquisition) tryApart(ctx context.Context, wait time.Duration) (driver.Outcome, error) {
	if !a.returned(ctx) {
		return driver.Outcome{}, ctx.Err()
	}
	if wait > 0 {
		patience := deadline.New(ctx, time.Now().Add(wait))
		defer patience.End()
		ctx = patience
	}
	c, backend := a.claim, a.locker.backend
	answer, left := apart(ctx, a.locker, retry.TryTimeout(c.TTL, int(a.failures)), func(ctx context.Context) (got driver.Attempt) {
		got.Outcome, got.Err = backend.Try(ctx, c)
		return got
	}, maybeSent)
	if a.left = left; left != nil {
		return driver.Outcome{}, ctx.Err()
	}
	return answer.Outcome, answer.Err
}

// returned waits until a try that was left has returned: there is one at a time. It
// reports false if ctx ends before.
func (a *acquisition) returned(ctx context.Context) bool {
	if a.left == nil {
		return true
	}
	select {
	case <-a.left.done:
		a.left = nil
		return true
	case <-ctx.Done():
		return false
	}
}

// tryAllApart is tryApart for the acquisitions of a batch.
func (l *Locker) tryAllApart(ctx context.Context, as []*acquisition, claims []driver.Claim) []driver.Attempt {
	store := l.backend.(driver.Batcher) //nolint:forcetypeassert // ready has checked
	answers, left := apart(ctx, l, retry.Timeout(l.ttl, 0), func(ctx context.Context) []driver.Attempt {
		return store.TryAll(ctx, claims)
	}, func(answers []driver.Attempt) bool { return slices.ContainsFunc(answers, maybeSent) })
	for _, a := range as {
		a.left = left
	}
	return answers
}

// apart makes a call in a goroutine, under a context that ends after limit, and returns
// its answer. If ctx ends before, it returns the try that is left; sent says of its answer
// that the store may have got it. A call that was not sent by then need not be: deadline.Caller
// has ctx. The call may panic: that is for the caller, or for the log if there is none.
func apart[T any](ctx context.Context, l *Locker, limit time.Duration, call func(context.Context) T, sent func(T) bool) (answer T, left *leftTry) {
	type end struct {
		answer T
		panics any
	}
	ended, goes := make(chan end), &leftTry{done: make(chan struct{})}
	bound := deadline.New(deadline.Apart(ctx), time.Now().Add(limit))
	go func() {
		defer bound.End()
		var e end
		defer func() { goes.end(e.panics != nil || sent(e.answer)) }()
		func() {
			defer func() { e.panics = recover() }()
			e.answer = call(bound)
		}()
		select {
		case ended <- e:
		case <-ctx.Done():
			if e.panics != nil {
				l.log.Error("the store panicked during a try whose caller had given up", "backend", l.info.Name, "panic", e.panics)
			}
		}
	}()
	select {
	case e := <-ended:
		if e.panics != nil {
			panic(e.panics)
		}
		return e.answer, nil
	case <-ctx.Done():
		return answer, goes
	}
}

// leftTry is a try that goes on without its caller.
type leftTry struct {
	done chan struct{} // closed when it has returned

	mu      sync.Mutex
	ended   bool
	sent    bool // by its answer, the store may have got it
	follows []func(sent bool)
}

// then calls follow when the try has returned, in the goroutine of the try if that is
// still to come: of a thousand that are left none takes another one.
func (t *leftTry) then(follow func(sent bool)) {
	t.mu.Lock()
	ended := t.ended
	if !ended {
		t.follows = append(t.follows, follow)
	}
	t.mu.Unlock()
	if ended {
		follow(t.sent)
	}
}

// end takes note that the try has returned.
func (t *leftTry) end(sent bool) {
	t.mu.Lock()
	t.ended, t.sent = true, sent
	follows := t.follows
	t.mu.Unlock()
	close(t.done)
	for _, follow := range follows {
		follow(sent)
	}
}

// maybeSent says that the store may have got the call of an answer.
func maybeSent(a driver.Attempt) bool { return a.Err == nil || !retry.Certain(a.Err) }

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

// Until returns an instant that does not come: the waiter decides for how long.
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
