package holdfast

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/renew"
)

// lease is a granted claim of this process. The Locker's scheduler renews it. It belongs to one
// hold at a time; the method replace passes it on.
//
// Lock order: a goroutine that has the scheduler's mutex or the mutex of Locker.queues may take
// lease.mu, but not the other way round. No goroutine has those two mutexes at once.
type lease struct {
	locker *Locker
	queue  *queue.Queue[queueKey, *hold, queueState] // the queue in which goroutines wait for the lease; nil if it has none

	// The claim.
	name, owner, beside, note string
	seq                       uint64
	ttl                       time.Duration
	permits                   int32

	kind      kind
	fenced    bool          // the store has fencing tokens
	keptUntil clock.Instant // the name stays taken until then, also after an Unlock; 0 without AtLeast

	// sent is the release of the lease in Locker.releases; nil if it is not there. Only the
	// goroutine that releases the lease uses this field.
	sent *sentRelease

	indeterminate bool // a try of the claim had no answer, and may still arrive

	// mu guards what follows, except entry, which belongs to the scheduler.
	state leaseState
	fixed bool // renewals only confirm the lease, because it lasts until fixedEnd already
	mu    sync.Mutex

	holds int32 // the hold count that renewals record in the store

	handoffs     int32 // how often the lease was passed on
	handoffsLeft int32 // how often it may still be passed on; with tokens, the number of reserved tokens that are left

	proven     clock.Moment  // the start of the last call by which the store confirmed the lease
	countsFrom clock.Instant // the start of the lease: when the grant arrived, or the start of the last renewal
	ends       clock.Instant // the store keeps the lease at least until then
	mayEnd     clock.Instant // the store may keep the lease until then, if it executes the last call that was sent
	deadline   clock.Instant // the lease counts as lost from then on: one margin before the instant `ends`
	fixedEnd   clock.Instant // the end that Lease or AtMost has set; 0 if there is none
	margin     time.Duration // the margin of a lease with fixedEnd

	holder *hold
	first  hold

	entry renew.Entry
}

func newLease(a *acquisition, start clock.Moment, deadline clock.Instant, out driver.Outcome) *lease {
	c := &a.claim
	l := a.room.newLease()
	*l = lease{
		locker: a.locker, kind: a.kind, fenced: a.locker.info.Caps.Fencing, indeterminate: c.Indeterminate,
		name: c.Name, seq: c.Seq, owner: c.Owner, beside: c.Beside, note: c.Note, permits: int32(min(c.Permits, math.MaxInt32)), ttl: c.TTL,
		state: leaseHeld, holds: int32(c.Count), handoffsLeft: int32(c.Tokens - 1),
		proven: start, ends: start.Mono + out.ValidFor, deadline: deadline,
	}
	l.mayEnd = max(l.ends, start.Mono+l.ttl)
	if a.req.leased {
		l.fixedEnd, l.margin = start.Mono+a.req.lease, min(a.locker.margin, a.req.lease/10)
		l.applyFixedEnd(start.Mono)
	}
	if !l.fenced && a.acceptsHandoff() {
		l.handoffsLeft = int32(max(a.locker.handoff.Max, 0))
	}
	l.countsFrom = a.locker.clock.Now()
	if a.req.atLeast > 0 {
		l.keptUntil = l.countsFrom + a.req.atLeast
	}
	l.first = hold{lease: l, token: out.Token, began: l.countsFrom, taken: true}
	l.holder = &l.first
	return l
}

// claim returns the granted claim with the values that a call at the instant `now` has to
// send.
func (l *lease) claim(now clock.Instant) driver.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := driver.Claim{
		Name: l.name, Client: l.locker.id, Seq: l.seq, Owner: l.owner, Mode: l.kind.mode(), Permits: int(l.permits),
		Fair: l.kind == fair, ReadWrite: l.kind.readWrite(), Beside: l.beside,
		TTL: l.ttl, Count: int(l.holds), Tokens: 1, Note: l.note, Anonymous: l.locker.anonymous, Indeterminate: l.indeterminate,
	}
	if l.fixedEnd != 0 && l.locker.info.SessionTTL == 0 {
		c.TTL = max(min(c.TTL, l.fixedEnd-now), time.Millisecond)
	}
	return c
}

// applyFixedEnd limits the end of the lease to fixedEnd. It is called when a call has moved the
// end; that call began at the instant `start`. It sets the field `fixed` if the lease lasts until
// fixedEnd, or if the call asked for that. The mutex is held, or the lease is new.
func (l *lease) applyFixedEnd(start clock.Instant) {
	l.fixed = l.ends >= l.fixedEnd || l.locker.info.SessionTTL == 0 && start+l.ttl >= l.fixedEnd
	l.deadline = min(l.deadline, l.fixedEnd-l.margin)
	if l.ends >= l.fixedEnd {
		l.ends, l.deadline = l.fixedEnd, l.fixedEnd-l.margin
	}
}

// isFixed reports whether renewals no longer move the end of the lease.
func (l *lease) isFixed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fixed
}

// latestEnd returns until when the store may keep the lease.
func (l *lease) latestEnd() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mayEnd
}

// suspended reports whether the lease is over by the wall clock, but not by the monotonic
// clock. Then only the store knows whether the lease is over. The mutex is held.
func (l *lease) suspended(now clock.Moment) bool {
	return now.Suspended(l.proven, l.deadline-now.Mono)
}

// errSuspended is the state of a lease that is over by the wall clock only.
var errSuspended = errors.New("the wall clock ran past the end of the lease (a suspended machine?); asking the store whether the lock is still held")

// leaseState is a state of a lease. The comment of the method `after` has the table of states.
type leaseState uint8

const (
	leaseHeld     leaseState = iota + 1 // it belongs to a hold; goroutines of this process wait for its end
	leaseUnlocked                       // the holder has unlocked it; the release is on its way, and the goroutines still wait
	leaseOpen                           // as unlocked, and the next goroutine may ask the store
	leaseLost                           // it ended without an Unlock; the next goroutine may ask, and no release was sent
	leaseReleased                       // as lost, and the store is asked to release what it may still keep
)

// leaseEvent is an event that may change the state of a lease.
type leaseEvent uint8

const (
	onRenewal   leaseEvent = iota // the store has confirmed it
	onPass                        // it is passed on to the next goroutine, which gets a hold of its own
	onUnlock                      // its holder unlocks it
	onLoss                        // its deadline has passed, the store does not have it, or its Lock was dropped
	onLetNext                     // the release was answered, or was sent to a store that keeps the order of calls
	onCleanUp                     // a release is due after a loss: the holder calls Unlock, or the store has sessions
	leaseEvents                   // the number of events
)

// after returns the state that follows s after the event e. The result `ok` is false if e
// changes nothing, because another event came first.
//
//	state     event    next      what is done
//	held      renewal  held      the deadline moves: lease.Answered
//	held      pass     held      the hold ends, the next goroutine's begins: lease.replace
//	held      unlock   unlocked  the hold ends, the store is asked to release it: hold.unlock
//	held      loss     lost      the hold ends, the next goroutine may ask: lease.lose, hold.dropped
//	unlocked  letNext  open      the next goroutine may ask: lease.letNextAfter
//	lost      letNext  lost      the next goroutine may ask: lease.abandon
//	lost      cleanUp  released  the store is asked to release it, in the background: Locker.cleanUp
//	released  letNext  released  as lost: an Unlock may come between the loss and lease.abandon
//
// The contexts of a hold are cancelled when it ends, before the next goroutine may go on.
func (s leaseState) after(e leaseEvent) (next leaseState, ok bool) {
	next = [...][leaseEvents]leaseState{
		leaseHeld:     {onRenewal: leaseHeld, onPass: leaseHeld, onUnlock: leaseUnlocked, onLoss: leaseLost},
		leaseUnlocked: {onLetNext: leaseOpen},
		leaseOpen:     {},
		leaseLost:     {onLetNext: leaseLost, onCleanUp: leaseReleased},
		leaseReleased: {onLetNext: leaseReleased},
	}[s][e]
	return next, next != 0
}

// move applies e to the lease, and reports whether that changed anything. The mutex is held.
func (l *lease) move(e leaseEvent) bool {
	next, ok := l.state.after(e)
	if ok {
		l.state = next
	}
	return ok
}

// step is move for callers that do not hold the mutex.
func (l *lease) step(e leaseEvent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.move(e)
}

// end applies e, an event that ends the lease, and sets err as the error of its hold. If the
// hold `only` is not nil and has ended before, end changes nothing. It returns the hold that it
// ended, and the contexts of that hold. If it changed nothing, the result `ended` is nil, and
// the result `state` is the error with which the hold had ended before.
func (l *lease) end(only *hold, e leaseEvent, err error) (ended *hold, contexts map[*derived]struct{}, state error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holder
	if only != nil && only.err != nil {
		return nil, nil, only.err
	}
	if !l.move(e) {
		return nil, nil, h.err
	}
	h.err = err
	contexts, h.contexts = h.contexts, nil
	return h, contexts, err
}

// admitNext records that the next goroutine of this process may ask. It returns the hold that
// ended, and for how many hand-offs the next claim reserves tokens. The result `ok` is false if
// an earlier call has opened the lease: see leaseOpen.
func (l *lease) admitNext() (h *hold, handoffs int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.move(onLetNext) {
		return nil, 0, false
	}
	return l.holder, l.locker.handoff.blockSize(l.handoffs, l.handoffsLeft), true
}

// replace ends h. It returns the next hold of the lease, and the contexts of h. It returns nil,
// and changes nothing, if the lease must not be passed on. The mutex of the queues is held.
func (l *lease) replace(h *hold) (next *hold, contexts map[*derived]struct{}) {
	now, bounds := l.locker.clock.Read(), l.locker.handoff
	l.mu.Lock()
	defer l.mu.Unlock()
	switch left := l.deadline - now.Mono; {
	case l.holds != 1, l.handoffsLeft == 0 || now.Mono-l.first.began >= bounds.For,
		left < (l.deadline-l.countsFrom)/2 || l.suspended(now), // a grant with so little left would not be accepted either
		!l.move(onPass):
		return nil, nil
	}
	l.handoffs++
	l.handoffsLeft--
	next = &hold{lease: l, began: now.Mono}
	if l.fenced {
		next.token = h.token + 1
	}
	h.err = ErrUnlocked
	contexts, h.contexts = h.contexts, nil
	l.holder = next
	return next, contexts
}

// stateOf returns nil while h has the lease. It compares the clock with the deadline,
// because a timer may fire late.
func (l *lease) stateOf(h *hold) error {
	now := l.locker.clock.Read()
	l.mu.Lock()
	err, over, suspended := h.err, now.Mono >= l.deadline, l.suspended(now)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case over:
		if err := l.expire(l.locker.renewals.LastError(l)); h.ended() == nil { // passed on in this moment: no longer h's lease
			return err
		}
		return h.ended()
	case suspended:
		l.locker.renewals.Hurry(l)
		return fmt.Errorf("lock %q: %w", l.name, errSuspended)
	}
	return nil
}

// Entry returns what the scheduler keeps of the lease.
func (l *lease) Entry() *renew.Entry { return &l.entry }

// Until returns the deadline.
func (l *lease) Until() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Claim returns the claim for a renewal that is sent at `now`, and records until when the store
// may then keep the lease, even without an answer. If the end is fixed, the renewal asks for
// the time until the deadline. So it extends nothing if it takes less than the margin.
func (l *lease) Claim(now clock.Instant) driver.Claim {
	c := l.claim(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Fixed = l.fixed && l.locker.info.SessionTTL == 0; c.Fixed {
		c.TTL = max(l.deadline-now, time.Millisecond)
	}
	l.mayEnd = max(l.mayEnd, now+c.TTL)
	return c
}

// Answered records the answer to a renewal that was sent at the time `start`. If the end of the
// lease is fixed, the answer does not move that end.
func (l *lease) Answered(start clock.Moment, answer driver.Renewal) (found renew.Report, held bool) {
	now := l.locker.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	found = renew.Report{Item: l, Token: l.holder.token, Err: answer.Err}
	if now >= l.deadline || !l.move(onRenewal) {
		return found, false // too late: the scheduler reports the loss soon, or has reported it
	}
	found.Margin = l.deadline - now
	if answer.Err != nil {
		return found, true
	}
	found.Left, found.Late = l.ends-now, l.late(now)
	l.proven = start
	if !l.fixed {
		validFor := min(answer.ValidFor, clock.Longest)
		l.countsFrom = start.Mono
		l.ends = start.Mono + validFor
		l.deadline = l.ends - l.locker.marginOf(validFor)
		if l.fixedEnd != 0 {
			l.applyFixedEnd(start.Mono)
		}
	}
	found.Fixed = l.fixed
	return found, true
}

// late reports whether less than a third of the lease is left. The length of the lease
// counts, not the TTL, because a store may grant a shorter lease. A fixed lease is never
// late, because renewals do not move its end. The mutex is held.
func (l *lease) late(now clock.Instant) bool {
	return !l.fixed && l.deadline-now < (l.deadline-l.countsFrom)/3
}

// hold is the possession of a lease by one holder. The user's *Lock refers to the hold, but the
// queue does not refer to the *Lock. So a *Lock that is dropped without Unlock is collected,
// and then the runtime calls hold.dropped.
type hold struct {
	lease   *lease
	token   uint64
	began   clock.Instant
	sharers int32 // how many Locks share the net of the hold's Lock: see shareNet; 0 if that Lock has a net of its own

	// Guarded by lease.mu.
	err      error // nil while held
	taken    bool  // a Lock of the hold was returned
	contexts map[*derived]struct{}
}

func cancelAll(contexts map[*derived]struct{}, err error) {
	for d := range contexts {
		d.cancel(err)
	}
}

// state returns nil while held.
func (h *hold) state() error { return h.lease.stateOf(h) }

// ended returns the error with which the hold has ended, nil if that is not recorded yet.
func (h *hold) ended() error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.err
}

// take records that a Lock of the hold is returned. It returns false if the hold has ended.
func (h *hold) take() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.taken = h.err == nil
	return h.taken
}

// neverTaken reports whether no Lock of the hold was ever returned, because its receiver had
// given up. Then no event reports its end, because no event reported its beginning.
func (h *hold) neverTaken() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return !h.taken
}

// held returns how long the holder has held the lease.
func (h *hold) held() time.Duration { return h.lease.locker.clock.Now() - h.began }

// remaining returns how long the hold lasts without another renewal; 0 if it has ended.
func (h *hold) remaining() time.Duration {
	l := h.lease
	now := l.locker.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.err != nil {
		return 0
	}
	return max(l.deadline-now, 0)
}
