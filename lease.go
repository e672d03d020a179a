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

// lease is a granted claim: what this process has of a name in the store. The
// Locker's scheduler renews it. One hold at a time has it; see replace.
//
// Lock order: the scheduler's mutex, or the mutex of Locker.queues, before lease.mu; never both.
type lease struct {
	locker *Locker
	queue  *queue.Queue[queueKey, *hold, queueState] // that it keeps waiting; nil if none

	// The claim.
	name, owner, beside, note string
	seq                       uint64
	ttl                       time.Duration
	permits                   int32

	kind   kind
	fenced bool          // the store draws tokens
	kept   clock.Instant // until when the name stays taken after an Unlock; 0 if it does not

	// indeterminate says that a try of the claim had no answer, and may still arrive.
	indeterminate bool

	// What follows is guarded by mu, but for entry, which is the scheduler's.
	state leaseState
	mu    sync.Mutex

	holds int32 // the count that renewals record

	turns     int32 // how often it was passed on
	turnsLeft int32 // how often it still may be: where it has tokens, those left of its block

	proven     clock.Moment  // start of the last call that proved the lease
	countsFrom clock.Instant // since when the lease counts: proven, or when a grant while waiting was received
	ends       clock.Instant // until then the store keeps it for certain
	mayEnd     clock.Instant // until then the store may keep it: by the last call that was sent
	deadline   clock.Instant // when it counts as lost: Margin before ends
	last       clock.Instant // the end that Lease or AtMost has set; 0 if there is none
	margin     time.Duration // of a lease with such an end
	fixed      bool          // it is as long as its end allows: renewals only prove it

	holder *hold
	first  hold

	entry renew.Entry
}

func newLease(a *acquisition, start clock.Moment, deadline clock.Instant, out driver.Outcome) *lease {
	c := &a.claim
	l := &lease{
		locker: a.locker, kind: a.kind, fenced: a.locker.info.Caps.Fencing, indeterminate: c.Indeterminate,
		name: c.Name, seq: c.Seq, owner: c.Owner, beside: c.Beside, note: c.Note, permits: int32(min(c.Permits, math.MaxInt32)), ttl: c.TTL,
		state: leaseHeld, holds: int32(c.Count), turnsLeft: int32(c.Tokens - 1),
		proven: start, ends: start.Mono + out.ValidFor, deadline: deadline,
	}
	l.mayEnd = max(l.ends, start.Mono+l.ttl)
	if a.req.leased {
		l.last, l.margin = start.Mono+a.req.lease, min(a.locker.margin, a.req.lease/10)
		l.bound(start.Mono)
	}
	if !l.fenced && a.takesHolds() {
		l.turnsLeft = int32(max(a.locker.handoff.Max, 0))
	}
	l.countsFrom = a.locker.clock.Now()
	if a.req.atLeast > 0 {
		l.kept = l.countsFrom + a.req.atLeast
	}
	l.first = hold{lease: l, token: out.Token, since: l.countsFrom, taken: true}
	l.holder = &l.first
	return l
}

// claim returns what was granted, as the next call should send it.
func (l *lease) claim(now clock.Instant) driver.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := driver.Claim{
		Name: l.name, Client: l.locker.id, Seq: l.seq, Owner: l.owner, Mode: l.kind.mode(), Permits: int(l.permits),
		Fair: l.kind == fair, ReadWrite: l.kind.readWrite(), Beside: l.beside,
		TTL: l.ttl, Count: int(l.holds), Tokens: 1, Note: l.note, Anonymous: l.locker.anonymous, Indeterminate: l.indeterminate,
	}
	if l.last != 0 && l.locker.info.SessionTTL == 0 {
		c.TTL = max(min(c.TTL, l.last-now), time.Millisecond)
	}
	return c
}

// bound ends the lease at its last instant, after a call that began at start: it is fixed if
// it lasts until then, or if the call asked for that. The mutex is held, or nobody else has
// the lease yet.
func (l *lease) bound(start clock.Instant) {
	l.fixed = l.ends >= l.last || l.locker.info.SessionTTL == 0 && start+l.ttl >= l.last
	l.deadline = min(l.deadline, l.last-l.margin)
	if l.ends >= l.last {
		l.ends, l.deadline = l.last, l.last-l.margin
	}
}

// isFixed says that renewals do not move the end of the lease.
func (l *lease) isFixed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fixed
}

// latest returns until when the store may keep the lease.
func (l *lease) latest() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mayEnd
}

// suspended says that by the wall clock the lease is over although it is not by
// the monotonic clock: only the store knows. The mutex is held.
func (l *lease) suspended(now clock.Moment) bool {
	return now.Suspended(l.proven, l.deadline-now.Mono)
}

// errSuspended says that the wall clock ran ahead of the monotonic clock.
var errSuspended = errors.New("the wall clock ran past the end of the lease (a suspended machine?); asking the store whether the lock is still held")

// leaseState is where a lease is in its life.
type leaseState uint8

const (
	leaseHeld     leaseState = iota + 1 // a hold has it, and goroutines of this process wait for its end
	leaseUnlocked                       // its holder is done; the release is on its way, and they wait still
	leaseOpen                           // as unlocked, and the next of them may ask
	leaseLost                           // it ended without an Unlock: the next may ask, and nothing was sent
	leaseReleased                       // as lost, and the store is asked to release what it may still keep
)

// leaseEvent is what happens to a lease.
type leaseEvent uint8

const (
	onRenewal   leaseEvent = iota // the store has proved it
	onPass                        // it goes to the next goroutine, with a hold of its own
	onUnlock                      // its holder is done
	onLoss                        // the deadline has passed, the store does not have it, or its Lock was dropped
	onLetNext                     // the release was answered, or is on its way to a store that keeps the order
	onCleanUp                     // its holder, or a store with sessions, wants no trace of it
	leaseEvents                   // how many there are
)

// after returns the state after e. It returns false where e changes nothing, since
// something else came first.
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
// The contexts of a hold end with it, ahead of what follows.
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

// move makes e happen to the lease, and reports whether that changed anything. The mutex
// is held.
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

// end ends the lease by e, and the hold that has it, with err. With only, it does
// so if that hold has it. It returns that hold and its contexts, or, if it
// changed nothing, no hold and why the one that was asked about had ended.
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

// admitNext notes that the next goroutine of this process may ask. It returns the hold that
// ended, and how many turns to reserve tokens for. ok is false if that one was let in before.
func (l *lease) admitNext() (h *hold, turns int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.move(onLetNext) {
		return nil, 0, false
	}
	return l.holder, l.locker.handoff.turnsNext(l.turns, l.turnsLeft), true
}

// replace ends h and returns the hold that follows it, and h's contexts, or nil
// if the lease has to go back to the store. The mutex of the queues is held.
func (l *lease) replace(h *hold) (next *hold, contexts map[*derived]struct{}) {
	now, bounds := l.locker.clock.Read(), l.locker.handoff
	l.mu.Lock()
	defer l.mu.Unlock()
	switch left := l.deadline - now.Mono; {
	case l.holds != 1, l.turnsLeft == 0 || now.Mono-l.first.since >= bounds.For,
		left < (l.deadline-l.countsFrom)/2 || l.suspended(now), // as a grant that comes so late is not kept
		!l.move(onPass):
		return nil, nil
	}
	l.turns++
	l.turnsLeft--
	next = &hold{lease: l, since: now.Mono}
	if l.fenced {
		next.token = h.token + 1
	}
	h.err = ErrUnlocked
	contexts, h.contexts = h.contexts, nil
	l.holder = next
	return next, contexts
}

// stateOf returns nil while h has the lease. It compares clocks itself rather than
// trust a timer that may fire late.
func (l *lease) stateOf(h *hold) error {
	now := l.locker.clock.Read()
	l.mu.Lock()
	err, over, doubt := h.err, now.Mono >= l.deadline, l.suspended(now)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case over:
		if err := l.expire(l.locker.renewals.Trouble(l)); h.ended() == nil { // passed on just now: not h's any more
			return err
		}
		return h.ended()
	case doubt:
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

// Claim is claim for a renewal that is sent now. Whatever becomes of its answer, the
// store may keep the lease until it ends. Where the end is fixed, it asks for no more than
// the holder has: a call that takes less than the margin extends nothing.
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

// Answered records that a call which started at start proved the lease, if it did. One
// with a fixed end is not extended by it.
func (l *lease) Answered(start clock.Moment, answer driver.Renewal) (found renew.Report, held bool) {
	now := l.locker.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	found = renew.Report{Item: l, Token: l.holder.token, Err: answer.Err}
	if now >= l.deadline || !l.move(onRenewal) {
		return found, false // too late: the scheduler is about to say so, if nobody has
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
		if l.last != 0 {
			l.bound(start.Mono)
		}
	}
	found.Fixed = l.fixed
	return found, true
}

// late says that less than a third is left of what the lease had when it began to
// count. It compares a lease with itself: a store may grant one for a short time. What
// is left to a fixed end is not extended, so nothing of it can be late. The mutex is
// held.
func (l *lease) late(now clock.Instant) bool {
	return !l.fixed && l.deadline-now < (l.deadline-l.countsFrom)/3
}

// hold is a lease in the hands of one holder. The queue and contexts
// refer to it; the user has a *Lock that refers to it, so that a Lock that was
// dropped without Unlock can be noticed.
type hold struct {
	lease *lease
	token uint64
	since clock.Instant

	// Guarded by lease.mu.
	err      error // nil while held
	taken    bool  // somebody has, or had, a Lock of it
	contexts map[*derived]struct{}
}

func cancelAll(contexts map[*derived]struct{}, err error) {
	for d := range contexts {
		d.cancel(err)
	}
}

// state returns nil while held.
func (h *hold) state() error { return h.lease.stateOf(h) }

// ended returns why the hold is over, nil if nobody has said so yet.
func (h *hold) ended() error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.err
}

// over says that a state is one that does not change any more.
func over(state error) bool { return state != nil && !errors.Is(state, errSuspended) }

// take makes the hold that of a Lock, unless it is over by then.
func (h *hold) take() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.taken = h.err == nil
	return h.taken
}

// unseen says that nobody ever had a Lock of the hold: who was to have it had given
// up. No event reports its end, as none reported its beginning.
func (h *hold) unseen() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return !h.taken
}

// held returns for how long it has been held.
func (h *hold) held() time.Duration { return h.lease.locker.clock.Now() - h.since }

// remaining returns how long the hold lasts if it is not renewed; 0 if it is
// over.
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
