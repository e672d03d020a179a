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
	"github.com/holdfast-go/holdfast/internal/stack"
)

// On a store without tombstones, a try that is cut off may be executed after the release that
// follows it. If that try gets a grant, nothing releases it. So no caller's context cuts off a
// try on such a store: the try runs detached, in its own goroutine and under its own context.
// If the caller gives up, the try goes on, and the claim is released when the try has ended.

// tryDetached makes one attempt that goes on if ctx ends. If `wait` is not 0, tryDetached
// returns after that time at the latest.
func (a *acquisition) tryDetached(ctx context.Context, wait time.Duration) (driver.Outcome, error) {
	if !a.awaitDetached(ctx) {
		return driver.Outcome{}, ctx.Err()
	}
	if wait > 0 {
		bound := deadline.New(ctx, time.Now().Add(wait))
		defer bound.End()
		ctx = bound
	}
	c, backend := a.claim, a.locker.backend
	answer, try := callDetached(ctx, a.locker, retry.TryTimeout(c.TTL, int(a.failures)), func(ctx context.Context) (got driver.Attempt) {
		got.Outcome, got.Err = backend.Try(ctx, c)
		return got
	}, maybeSent)
	if a.detached = try; try != nil {
		return driver.Outcome{}, ctx.Err()
	}
	return answer.Outcome, answer.Err
}

// awaitDetached waits until the detached try has returned, because only one try of a claim may
// run at a time. It returns false if ctx ends first.
func (a *acquisition) awaitDetached(ctx context.Context) bool {
	if a.detached == nil {
		return true
	}
	select {
	case <-a.detached.done:
		a.detached = nil
		return true
	case <-ctx.Done():
		return false
	}
}

// tryAllDetached is tryDetached for the tries of a batch that are l's.
func (l *Locker) tryAllDetached(ctx context.Context, b batch, claims []driver.Claim) []driver.Attempt {
	store := l.backend.(driver.Batcher) //nolint:forcetypeassert // ready has checked
	answers, try := callDetached(ctx, l, retry.Timeout(l.ttl, 0), func(ctx context.Context) []driver.Attempt {
		return store.TryAll(ctx, claims)
	}, func(answers []driver.Attempt) bool { return slices.ContainsFunc(answers, maybeSent) })
	for a := range b.of(l) {
		a.detached = try
	}
	return answers
}

// callDetached makes a call in a goroutine, under a context that ends after `limit`. If the
// call returns first, callDetached returns its answer. If ctx ends first, callDetached returns
// the detached try, which goes on. The function `sent` gets the answer, and reports whether the
// store may have received the call. The store's code gets ctx from deadline.Caller. If ctx ends
// before the store's code has sent the call, the store's code need not send the call any more.
// A panic of the call is raised again for the caller, or logged if the caller has given up.
func callDetached[T any](ctx context.Context, l *Locker, limit time.Duration, call func(context.Context) T, sent func(T) bool) (answer T, unreturned *detachedTry) {
	c := &detachedCall[T]{detachedTry: detachedTry{done: make(chan struct{})}}
	go func() {
		stack.Grow()
		bound, cancel := context.WithTimeout(deadline.Detach(ctx), limit)
		defer cancel()
		defer func() { c.end(c.panics != nil || sent(c.answer)) }()
		if c.run(bound, call); c.panics != nil && c.abandoned {
			l.log.Error("the store panicked during a try whose caller had given up", "backend", l.info.Name, "panic", c.panics)
		}
	}()
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.abandon() {
			return answer, &c.detachedTry
		}
	}
	if c.panics != nil {
		panic(c.panics)
	}
	return c.answer, nil
}

// detachedCall is a detachedTry with the result of its call. The caller may read the result
// when the call has returned.
type detachedCall[T any] struct {
	detachedTry
	answer T
	panics any // the value with which the call panicked, or nil
}

// run makes the call. After it, the caller cannot give up any more.
func (c *detachedCall[T]) run(ctx context.Context, call func(context.Context) T) {
	defer func() {
		c.panics = recover()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.returned = true
	}()
	c.answer = call(ctx)
}

// detachedTry is a try that goes on if its caller gives up.
type detachedTry struct {
	done chan struct{} // closed when the try has returned

	mu        sync.Mutex
	returned  bool // the call has returned
	abandoned bool // the caller has given up before the call returned
	ended     bool
	sent      bool // the store may have received the call, as far as the answer shows
	callbacks []func(sent bool)
}

// abandon records that the caller gives up. It returns false if the call has returned before.
func (t *detachedTry) abandon() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.returned {
		return false
	}
	t.abandoned = true
	return true
}

// onReturn calls f at once if the try has returned. Otherwise the goroutine of the try calls
// f when the try returns, so that thousands of detached tries need no more goroutines.
func (t *detachedTry) onReturn(f func(sent bool)) {
	t.mu.Lock()
	ended := t.ended
	if !ended {
		t.callbacks = append(t.callbacks, f)
	}
	t.mu.Unlock()
	if ended {
		f(t.sent)
	}
}

// end records that the try has returned, and calls the functions that onReturn has stored.
func (t *detachedTry) end(sent bool) {
	t.mu.Lock()
	t.ended, t.sent = true, sent
	callbacks := t.callbacks
	t.mu.Unlock()
	close(t.done)
	for _, f := range callbacks {
		f(sent)
	}
}

// maybeSent reports whether the store may have received the call with the result `a`.
func maybeSent(a driver.Attempt) bool { return a.Err == nil || !retry.Certain(a.Err) }

// queuedClaim is a claim that waits in a queue of a store with Info.SessionTTL. Such a store
// keeps the place of a client for as long as the client renews something. A client that only
// waits holds nothing, so the Locker's scheduler renews the claim.
type queuedClaim struct {
	locker *Locker
	claim  driver.Claim
	ctx    context.Context // derived from the caller's context; it also ends when the place in the queue is lost
	lost   context.CancelFunc
	entry  renew.Entry
}

// keepQueued starts to renew the claim's place in the queue of a store with sessions, unless
// these renewals have begun before.
func (a *acquisition) keepQueued(ctx context.Context) {
	l := a.locker
	switch {
	case l.info.SessionTTL == 0:
		return
	case a.inQueue != nil && a.inQueue.ctx.Err() == nil:
		return
	}
	a.leaveQueued()
	q := &queuedClaim{locker: l, claim: a.claim}
	q.ctx, q.lost = context.WithCancel(ctx)
	a.inQueue = q
	l.renewals.Add(q, l.clock.Read(), l.info.SessionTTL, false)
}

// leaveQueued ends the renewals of keepQueued.
func (a *acquisition) leaveQueued() {
	if q := a.inQueue; q != nil {
		q.locker.renewals.Remove(q)
		q.lost()
		a.inQueue = nil
	}
}

// queuedContext returns the context under which the claim waits for its next try. If keepQueued
// renews a place of the claim, that context also ends when the place is lost, so that the next
// try takes a new place. Otherwise the context is ctx.
func (a *acquisition) queuedContext(ctx context.Context) context.Context {
	if a.inQueue != nil {
		return a.inQueue.ctx
	}
	return ctx
}

// Entry returns what the scheduler keeps of the claim.
func (q *queuedClaim) Entry() *renew.Entry { return &q.entry }

// Until returns an instant that never comes: the waiter decides for how long it waits.
func (q *queuedClaim) Until() clock.Instant { return clock.Longest }

// Claim returns the claim.
func (q *queuedClaim) Claim(clock.Instant) driver.Claim { return q.claim }

// Answered records nothing, and returns a report with the error of the renewal. Its second
// result is false if the wait has ended or the place is lost.
func (q *queuedClaim) Answered(_ clock.Moment, answer driver.Renewal) (renew.Report, bool) {
	return renew.Report{Item: q, Err: answer.Err}, q.ctx.Err() == nil
}

// Gone wakes the waiter, whose next try takes a new place.
func (q *queuedClaim) Gone(_ error, report func()) {
	q.locker.renewals.Remove(q)
	q.locker.background.Go(report)
	q.lost()
}

// Expired does nothing, because the instant that Until returns never comes.
func (q *queuedClaim) Expired(error) {}
