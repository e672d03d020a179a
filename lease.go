package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// lease is a granted claim of this process. The Locker's scheduler renews it. It belongs to one
// hold at a time; the method replace passes it on.
//
// Lock order: a goroutine that has the scheduler's mutex or the mutex of Locker.queues may take
// lease.mu, but not the other way round. No goroutine has those two mutexes at once.
type lease struct {
	locker *Locker
	queue  *queue.Queue[queueKey, *hold, queueState] // the queue in which goroutines wait for the lease; nil if it has none

	heldClaim
	keptUntil clock.Instant // the name stays taken until then, also after an Unlock; 0 without AtLeast

	// sent is the release of the lease in Locker.releases; nil if it is not there. Only the
	// goroutine that releases the lease uses this field.
	sent *sentRelease

	// mu guards what follows, except entry, which belongs to the scheduler.
	mu    sync.Mutex
	state leaseState
	fixed bool  // renewals only confirm the lease, because it lasts until fixedEnd already
	holds int32 // the hold count that renewals record in the store

	handoffsLeft int32 // how often it may still be passed on; with tokens, the number of reserved tokens that are left

	proven      clock.Moment  // the start of the last call by which the store confirmed the lease
	ends        clock.Instant // the store keeps the lease at least until then
	mayEnd      clock.Instant // the store may keep the lease until then, if it executes the last call that was sent
	deadline    clock.Instant // the lease counts as lost from then on: one margin before the instant `ends`
	fixedEnd    clock.Instant // the end that FixedLease or AtMost has set; 0 if there is none
	fixedMargin time.Duration // the margin of a lease with fixedEnd

	holder *hold
	first  hold

	entry renew.Entry
}

// heldClaim is what does not change of a granted claim, and does not follow from the Locker or the
// kind. A process may hold very many locks, so a lease does not keep a whole driver.Claim.
type heldClaim struct {
	name, owner, beside, note string
	seq                       uint64
	ttl                       time.Duration
	permits                   int32
	kind                      kind
	indeterminate             bool // a try of the claim had no answer, and may still arrive
}

// grant says how the store has granted a claim.
type grant struct {
	locker *Locker
	kind   kind
	passes bool // the lease may be passed on

	start  clock.Moment   // when the call began that the store has answered
	out    driver.Outcome // the answer
	margin time.Duration
}

// newLease makes the lease of a claim that was granted for the request r. It makes the lease in the
// memory at l, and returns l. The claim and the request are no part of the grant, because they
// would then be moved to the heap.
func newLease(l *lease, c *driver.Claim, r *request, g grant) *lease {
	*l = lease{
		locker: g.locker,
		heldClaim: heldClaim{
			name: c.Name, owner: c.Owner, beside: c.Beside, note: c.Note, seq: c.Seq, ttl: c.TTL,
			permits: int32(min(c.Permits, math.MaxInt32)), kind: g.kind, indeterminate: c.Indeterminate,
		},
		state:        leaseHeld,
		holds:        int32(c.Count),
		handoffsLeft: int32(c.Tokens - 1),
		proven:       g.start,
		ends:         g.start.Mono + g.out.ValidFor,
	}
	l.deadline = l.ends - g.margin
	l.mayEnd = max(l.ends, g.start.Mono+l.ttl)
	if r.leased {
		l.fixedEnd = g.start.Mono + r.lease
		l.fixedMargin = min(g.locker.margin, r.lease/10)
		l.applyFixedEndLocked(g.start.Mono) // no other goroutine has the lease yet
	}
	if g.passes && !l.fenced() {
		l.handoffsLeft = int32(max(g.locker.handoff.Max, 0))
	}
	l.first = hold{lease: l, token: g.out.Token, began: g.locker.clock.Now(), taken: true}
	l.holder = &l.first
	if r.atLeast > 0 {
		l.keptUntil = l.first.began + r.atLeast
	}
	return l
}

// queueKey identifies the queue in which goroutines of this process wait for the name.
func (l *lease) queueKey() queueKey { return queueKey{l.name, l.kind} }

// fenced reports whether the store has fencing tokens.
func (l *lease) fenced() bool { return l.locker.info.Caps.Fencing }

// claimAt returns the granted claim with the values that a call at the instant `now` has to send.
func (l *lease) claimAt(now clock.Instant) driver.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimAtLocked(now)
}

func (l *lease) claimAtLocked(now clock.Instant) driver.Claim {
	c := driver.Claim{
		Name: l.name, Client: l.locker.id, Seq: l.seq, Owner: l.owner, Beside: l.beside,
		Mode: l.kind.mode(), Fair: l.kind == fair, ReadWrite: l.kind.readWrite(), Permits: int(l.permits),
		TTL: l.ttl, Count: int(l.holds), Tokens: 1, Note: l.note, Anonymous: l.locker.anonymous, Indeterminate: l.indeterminate,
	}
	if l.fixedEnd != 0 && l.locker.info.SessionTTL == 0 {
		c.TTL = max(min(c.TTL, l.fixedEnd-now), time.Millisecond)
	}
	return c
}

// applyFixedEndLocked limits the end of the lease to fixedEnd. It is called when a call has moved the
// end; that call began at the instant `start`. It sets the field `fixed` if the lease lasts until
// fixedEnd, or if the call asked for that.
func (l *lease) applyFixedEndLocked(start clock.Instant) {
	l.fixed = l.ends >= l.fixedEnd || l.locker.info.SessionTTL == 0 && start+l.ttl >= l.fixedEnd
	l.deadline = min(l.deadline, l.fixedEnd-l.fixedMargin)
	if l.ends >= l.fixedEnd {
		l.ends = l.fixedEnd
		l.deadline = l.fixedEnd - l.fixedMargin
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

// suspendedLocked reports whether the lease is over by the wall clock, but not by the monotonic
// clock. Then only the store knows whether the lease is over.
func (l *lease) suspendedLocked(now clock.Moment) bool {
	return now.Suspended(l.proven, l.deadline-now.Mono)
}

// errSuspended is the state of a lease that is over by the wall clock only.
var errSuspended = errors.New("the wall clock ran past the end of the lease (a suspended machine?); asking the store whether the lock is still held")

// over reports whether `state`, which is the state of a hold, means that the hold has ended.
func over(state error) bool { return state != nil && !errors.Is(state, errSuspended) }

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

// moveLocked applies e to the lease, and reports whether that changed anything.
func (l *lease) moveLocked(e leaseEvent) bool {
	next, ok := l.state.after(e)
	if ok {
		l.state = next
	}
	return ok
}

// move is moveLocked for callers that do not hold the mutex.
func (l *lease) move(e leaseEvent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moveLocked(e)
}

// end applies e, an event that ends the lease, and sets err as the error of its hold. If the
// hold `only` is not nil and has ended before, end changes nothing: the lease may belong to another
// hold by then. As long as it has not ended, it is the holder of the lease. end returns the hold
// that it ended, and the contexts of that hold. If it changed nothing, the result `ended` is nil,
// and the result `state` is the error with which the hold had ended before.
func (l *lease) end(only *hold, e leaseEvent, err error) (ended *hold, contexts map[*derived]struct{}, state error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holder
	if only != nil && only.err != nil {
		return nil, nil, only.err
	}
	if !l.moveLocked(e) {
		return nil, nil, h.err
	}
	h.err = err
	contexts = h.contexts
	h.contexts = nil
	return h, contexts, err
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
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.claimAtLocked(now)
	c.Fixed = l.fixed && l.locker.info.SessionTTL == 0
	if c.Fixed {
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
	if now >= l.deadline || !l.moveLocked(onRenewal) {
		return found, false // too late: the scheduler reports the loss soon, or has reported it
	}
	found.Margin = l.deadline - now
	if answer.Err != nil {
		return found, true
	}
	found.Left = l.ends - now
	found.Late = l.lateLocked(now)
	l.proven = start
	if !l.fixed {
		validFor := min(answer.ValidFor, clock.Longest)
		l.ends = start.Mono + validFor
		l.deadline = l.ends - l.locker.marginOf(validFor)
		if l.fixedEnd != 0 {
			l.applyFixedEndLocked(start.Mono)
		}
	}
	found.Fixed = l.fixed
	return found, true
}

// lateLocked reports whether less than a third of the lease is left. The length of the lease
// counts, not the TTL, because a store may grant a shorter lease. A fixed lease is never
// late, because renewals do not move its end.
func (l *lease) lateLocked(now clock.Instant) bool {
	return !l.fixed && l.deadline-now < (l.deadline-l.countsFromLocked())/3
}

// countsFromLocked returns the start of the lease: when the grant arrived, or the start of the last
// renewal.
func (l *lease) countsFromLocked() clock.Instant { return max(l.first.began, l.proven.Mono) }

// Gone ends a lease that the store does not have any more, or whose renewal panicked.
func (l *lease) Gone(err error, report func()) {
	reason := driver.ReasonUnreachable
	if retry.Gone(err) {
		reason = retry.ReasonOf(err)
	}
	_ = l.lose(reason, err, report)
}

// Expired ends a lease whose deadline has passed.
func (l *lease) Expired(last error) {
	_ = l.expire(last) // its Lock returns this error to the holder
}

// lose ends the lease of a lost lock, and returns the error with which the hold has ended. Only
// the first call ends the lease. lose calls the function `first` before it reports the loss. It
// sends no release, because the holder may use the rest of the lease to stop. But if the leases
// of the store do not end by themselves, the lease is released at its end.
func (l *lease) lose(reason driver.Reason, cause error, first func()) error {
	// A caller that sees the loss may call Drain, which has to wait for the report of the loss. So
	// the goroutine that will report it starts before the hold ends.
	report := make(chan func(), 1)
	l.locker.background.Go(func() { (<-report)() })
	h, contexts, err := l.end(nil, onLoss, &LostError{Name: l.name, Reason: reason, Cause: cause})
	if h == nil {
		report <- func() {}
		return err
	}
	cancelAll(contexts, err)
	l.abandon(mayBeKept(reason))
	report <- func() { // last: Drain waits for it, and so for what abandon started
		first()
		l.locker.reportLoss(h, reason, err)
	}
	return err
}

// expire ends a lease whose deadline has passed. The parameter `cause` is the last error since
// the last renewal that succeeded; nil if there was none.
func (l *lease) expire(cause error) error {
	reason := driver.ReasonUnreachable
	switch {
	case cause == nil || l.isFixed():
		reason = driver.ReasonExpired
	case errors.Is(cause, driver.ErrRefused) && !errors.Is(cause, driver.ErrClosed):
		reason = driver.ReasonRefused
	}
	return l.lose(reason, cause, func() {})
}

// abandon ends the renewals of a lease that is over, and lets the next goroutine ask the store. The
// parameter `kept` says that the store may still have the lease.
func (l *lease) abandon(kept bool) {
	l.locker.renewals.Remove(l)
	l.letNext()
	if kept {
		l.releaseSession()
	}
}

// In the queues of a Locker, goroutines wait for a hold.
type (
	queues = queue.Queues[queueKey, *hold, queueState]
	place  = queue.Place[queueKey, *hold, queueState]
)

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

// derived is a context made by Lock.Context that has not ended yet.
type derived struct {
	cancel context.CancelCauseFunc
	keeps  any // the Lock, so that it is not collected while the context lives: the holder may keep only the context
}

func cancelAll(contexts map[*derived]struct{}, err error) {
	for d := range contexts {
		d.cancel(err)
	}
}

// addContext makes d end with the hold. If the hold has ended already, addContext returns the
// error with which it ended.
func (h *hold) addContext(d *derived) error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	if h.contexts == nil {
		h.contexts = make(map[*derived]struct{})
	}
	h.contexts[d] = struct{}{}
	return nil
}

func (h *hold) dropContext(d *derived) {
	h.lease.mu.Lock()
	delete(h.contexts, d)
	h.lease.mu.Unlock()
	d.cancel(nil)
}

// state returns nil while held.
func (h *hold) state() error { return h.lease.stateOf(h) }

// stateOf returns nil while h has the lease. It compares the clock with the deadline,
// because a timer may fire late.
func (l *lease) stateOf(h *hold) error {
	now := l.locker.clock.Read()
	l.mu.Lock()
	err := h.err
	expired := now.Mono >= l.deadline
	suspended := l.suspendedLocked(now)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case expired:
		lost := l.expire(l.locker.renewals.LastError(l))
		if err := h.ended(); err != nil { // it is not `lost` if the lease was passed on in this moment
			return err
		}
		return lost
	case suspended:
		l.locker.renewals.Hurry(l)
		return fmt.Errorf("lock %q: %w", l.name, errSuspended)
	}
	return nil
}

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

// setHolds changes the count that renewals record.
func (l *lease) setHolds(count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = int32(count)
}

// recount records the hold count in the store, which also confirms and extends the hold. If the
// store has no counts, it does nothing. It tries until ctx ends. If the parameter `failures` is
// not 0, it also stops after so many failed calls. If it fails, the next renewal records the
// count.
func (h *hold) recount(ctx context.Context, failures int) error {
	l := h.lease
	if !l.locker.info.Caps.Counts {
		return nil
	}
	err := l.locker.renewals.Prove(ctx, l, failures)
	if err == nil {
		return nil
	}
	if state := h.state(); over(state) {
		return state
	}
	return fmt.Errorf("lock %q: %w", l.name, err)
}

// reported describes the hold that has the lease. It returns false if that hold has ended.
func (l *lease) reported(now clock.Instant) (driver.ReportedHold, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holder
	return driver.ReportedHold{
		Name: l.name, Owner: l.owner, Mode: l.kind.mode(), Fair: l.kind == fair, ReadWrite: l.kind.readWrite(),
		Token: h.token, HeldFor: now - h.began,
	}, l.state == leaseHeld
}

// passOn passes the lease on to the next goroutine in the queue. It returns false, and
// changes nothing, if there is none, or if a limit of Handoff is reached.
func (h *hold) passOn() bool {
	l := h.lease
	if l.queue == nil {
		return false
	}
	var contexts map[*derived]struct{}
	return l.queue.Pass(h, func() (next *hold, ok bool) {
		next, contexts = l.replace(h)
		return next, next != nil
	}, func() { cancelAll(contexts, ErrUnlocked) })
}

// replace ends h. It returns the next hold of the lease, and the contexts of h. It returns nil,
// and changes nothing, if the lease must not be passed on. It runs inside Queue.Pass.
func (l *lease) replace(h *hold) (next *hold, contexts map[*derived]struct{}) {
	now := l.locker.clock.Read()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mayPassLocked(now) || !l.moveLocked(onPass) {
		return nil, nil
	}
	l.handoffsLeft--
	next = &hold{lease: l, began: now.Mono}
	if l.fenced() {
		next.token = h.token + 1
	}
	h.err = ErrUnlocked
	contexts = h.contexts
	h.contexts = nil
	l.holder = next
	return next, contexts
}

// mayPassLocked reports whether the limits of Handoff and the rest of the lease allow to pass it
// on at the time `now`.
func (l *lease) mayPassLocked(now clock.Moment) bool {
	switch {
	case l.holds != 1, l.handoffsLeft == 0:
		return false
	case now.Mono-l.first.began >= l.locker.handoff.For:
		return false
	case l.deadline-now.Mono < (l.deadline-l.countsFromLocked())/2: // a grant with so little left would not be accepted either
		return false
	}
	return !l.suspendedLocked(now)
}

// decline passes on or releases a hold whose receiver has given up.
func (h *hold) decline() {
	if !h.passOn() {
		h.lease.locker.background.Go(func() { _ = h.unlock(new(deadline.Context)) })
	}
}

// dropped ends the hold when the user's Lock was garbage-collected without Unlock.
func (h *hold) dropped() {
	l := h.lease
	ended, contexts, _ := l.end(h, onLoss, ErrUnlocked)
	if ended == nil {
		return
	}
	cancelAll(contexts, ErrUnlocked)
	l.abandon(true)
	l.locker.background.Go(func() { // not in this goroutine, which runs all clean-ups of the program
		level := slog.LevelError
		text := "a lock was dropped without Unlock; it is no longer renewed"
		if l.isFixed() { // a lock with FixedLease may be meant to end without Unlock
			level = slog.LevelDebug
			text = "a lock with a fixed end was dropped without Unlock; it ends with its lease"
		}
		l.locker.log.Log(context.Background(), level, text, "lock", l.name, "token", h.token, "held", h.held())
		h.report(errDropped)
	})
}

// errDropped is the error of the release of a Lock that was dropped.
var errDropped = errors.New("dropped without Unlock")

func (l *Locker) reportRenewal(r renew.Report) {
	ctx := context.Background()
	renewed, ok := r.Item.(*lease)
	if !ok { // the claim of a waiter, which is no lock yet
		return
	}
	name := renewed.name
	switch {
	case retry.Gone(r.Err): // the loss is logged
	case r.Err != nil:
		l.log.Warn("renewal failed, trying again", "lock", name, "backend", l.info.Name, "token", r.Token, "lease", r.Margin, "err", r.Err)
	case r.Late:
		l.log.Warn("renewal late", "lock", name, "backend", l.info.Name, "token", r.Token, "lease", r.Margin)
	case l.log.Enabled(ctx, slog.LevelDebug):
		l.log.Debug("renewed", "lock", name, "backend", l.info.Name, "token", r.Token, "lease", r.Margin)
	}
	l.emit(ctx, Event{
		Type: EventRenew, Name: name, Kind: renewed.kind.String(), Token: r.Token, Owner: renewed.owner,
		Margin: r.Margin, Remaining: r.Left, Late: r.Late, Leased: r.Fixed, Err: r.Err,
	})
}

// report reports the end of the hold, if the release failed, or if there is an observer or a
// log.
func (h *hold) report(err error) {
	l := h.lease.locker
	if err != nil || l.observed(context.Background()) {
		l.reportRelease(h, err)
	}
}

func (l *Locker) reportRelease(h *hold, err error) {
	ctx := context.Background()
	if h.neverTaken() {
		return
	}
	held := h.held()
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.Debug("released", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "err", err)
	}
	l.emit(ctx, h.event(EventRelease, held, err))
	var lost *LostError
	if errors.As(err, &lost) {
		l.reportLoss(h, lost.Reason, err)
	}
}

func (l *Locker) reportLoss(h *hold, reason driver.Reason, err error) {
	if h.neverTaken() {
		return
	}
	held := h.held()
	fixed := h.lease.isFixed()
	level := slog.LevelError
	text := "lost"
	if fixed && reason == driver.ReasonExpired { // its user chose the end, and may have meant it as the release
		level = slog.LevelDebug
		text = "a lock with a fixed end has ended without Unlock"
	}
	l.log.Log(context.Background(), level, text, "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "reason", reason, "err", err)
	e := h.event(EventLoss, held, err)
	e.Reason = reason
	e.Leased = fixed
	l.emit(context.Background(), e)
}

// event returns an event of the end of the hold.
func (h *hold) event(t EventType, held time.Duration, err error) Event {
	l := h.lease
	return Event{Type: t, Name: l.name, Kind: l.kind.String(), Token: h.token, Owner: l.owner, HeldFor: held, Err: err}
}
