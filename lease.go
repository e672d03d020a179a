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
	name, owner, beside string
	seq                 uint64
	ttl                 time.Duration
	permits             int32

	kind   kind
	fixed  bool // its end is fixed: proven, not extended
	fenced bool // the store draws tokens

	// unsettled says that a try of the claim had no answer, and may still arrive.
	unsettled bool

	// What follows is guarded by mu, but for entry, which is the scheduler's.
	over    bool // it is lost or given back
	vacated bool // the next goroutine of this process was let in
	cleaned bool // the clean-up after a loss was started
	mu      sync.Mutex

	holds int32 // the count that renewals record

	turns     int32 // how often it was handed on
	turnsLeft int32 // how often it still may be: where it has tokens, those left of its block

	proven     clock.Moment  // start of the last call that proved the lease
	countsFrom clock.Instant // since when the lease counts: proven, or when a grant while waiting was heard of
	ends       clock.Instant // until then the store keeps it for certain
	mayEnd     clock.Instant // until then the store may keep it: by the last call that was sent
	deadline   clock.Instant // when it counts as lost: Margin before ends

	holder *hold
	first  hold

	entry renew.Entry
}

func newLease(a *acquisition, start clock.Moment, deadline clock.Instant, out driver.Outcome) *lease {
	c := &a.claim
	l := &lease{
		locker: a.locker, kind: a.kind, fixed: a.req.leased, fenced: a.locker.info.Caps.Fencing, unsettled: c.Indeterminate,
		name: c.Name, seq: c.Seq, owner: c.Owner, beside: c.Beside, permits: int32(min(c.Permits, math.MaxInt32)), ttl: c.TTL,
		holds: int32(c.Holds), turnsLeft: int32(c.Tokens - 1),
		proven: start, ends: start.Mono + out.ValidFor, deadline: deadline,
	}
	l.mayEnd = max(l.ends, start.Mono+l.ttl)
	if !l.fenced {
		l.turnsLeft = int32(max(a.locker.handoff.Max, 0))
	}
	l.countsFrom = a.locker.clock.Now()
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
		TTL: l.ttl, Holds: int(l.holds), Tokens: 1, Note: l.locker.note, Anonymous: l.locker.anonymous, Indeterminate: l.unsettled,
	}
	if l.fixed {
		c.TTL = max(l.ends-now, time.Millisecond)
	}
	return c
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

// remaining returns how long the lease counts if it is not renewed; 0 if it is
// over.
func (l *lease) remaining(now clock.Instant) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return 0
	}
	return max(l.deadline-now, 0)
}

// lose ends the lease because the lock is lost, once, and returns why it is over.
// Nothing is sent to the store: what is left of the lease is the holder's time
// to stop. Only a store whose leases do not end by themselves is asked to release
// it after that.
func (l *lease) lose(reason driver.Reason, cause error) error {
	return l.loseWith(reason, cause, func() {})
}

// loseWith is lose, and calls first before it reports the loss.
func (l *lease) loseWith(reason driver.Reason, cause error, first func()) error {
	report := make(chan func(), 1)
	l.locker.background.Go(func() { (<-report)() }) // begun before anybody can hear of the loss, and call Drain
	h, contexts, err := l.finish(nil, &LostError{Name: l.name, Reason: reason, Cause: cause})
	if h == nil {
		report <- func() {}
		return err
	}
	report <- func() {
		first()
		l.locker.reportLoss(h, reason, err)
	}
	cancelAll(contexts, err)
	l.locker.renewals.Remove(l)
	l.letNext()
	l.releaseSession(reason)
	return err
}

// finish ends the lease, and the hold that has it, with err. With only, it does
// so if that hold has it. It returns that hold and its contexts, or, if it
// changed nothing, no hold and why the one that was asked about had ended.
func (l *lease) finish(only *hold, err error) (ended *hold, contexts map[*derived]struct{}, state error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holder
	if only != nil && only.err != nil {
		return nil, nil, only.err
	}
	if h.err != nil {
		return nil, nil, h.err
	}
	l.over = true
	h.err = err
	contexts, h.contexts = h.contexts, nil
	return h, contexts, err
}

// once reports true the first time.
func (l *lease) once() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.cleaned
	l.cleaned = true
	return first
}

// errSuspended says that the wall clock ran ahead of the monotonic clock.
var errSuspended = errors.New("the wall clock ran past the end of the lease (a suspended machine?); asking the store whether the lock is still held")

// state returns nil while h has the lease. It compares clocks itself rather than
// trust a timer that may fire late.
func (l *lease) state(h *hold) error {
	now := l.locker.clock.Read()
	l.mu.Lock()
	err, over, doubt := h.err, now.Mono >= l.deadline, l.suspended(now)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case over:
		if err := l.expire(l.locker.renewals.Trouble(l)); h.ended() == nil { // handed on just now: not h's any more
			return err
		}
		return h.ended()
	case doubt:
		l.locker.renewals.Hurry(l)
		return fmt.Errorf("lock %q: %w", l.name, errSuspended)
	}
	return nil
}
