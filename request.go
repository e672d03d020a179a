package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Option changes the settings for one call.
type Option func(*request)

// FixedLease fixes the end of the lock: it is not renewed, and ends after d, even without Unlock.
// d must be between 10ms and 100 years. Without this option a lock has Options.TTL, and is renewed
// until its Unlock. The lock counts as lost, and its context ends, a tenth of d earlier, but at most
// Options.Margin: with ten seconds the work has nine, and the name is free after ten.
//
// The lock is not extended, so it also ends if the process dies. The exception is a store
// with driver.Info.SessionTTL: there Holdfast renews the lock, if necessary, until d has
// passed, and then releases it. If the process dies, the lock ends with the session.
//
// If a lock with FixedLease is held for two seconds or longer, the Locker checks it as often as it
// renews other locks. So the holder is notified if somebody ends the lock by force.
func FixedLease(d time.Duration) Option {
	return func(r *request) { r.lease, r.leased = d, true }
}

// AtMost limits how long the lock is held: for d at most, also if its holder never unlocks it.
// Holdfast renews the lock until then. The lock is lost one margin before d has passed, with
// driver.ReasonExpired, and another client can get it when d has passed. If the process dies or
// is cut off, the name becomes free as early as without AtMost, and never later than d after
// the grant. d must be between 10ms and 100 years; if d is not longer than the TTL, AtMost is
// the same as FixedLease.
//
// The store ends the lock by itself when d has passed. The exception is a store with
// driver.Info.SessionTTL: there Holdfast releases the lock at that time. If the process is dead
// or cut off by then, the lock ends with the session of the process. d counts on the monotonic
// clock, so the time while the machine is suspended does not count.
//
// AtMost works with each kind of lock. Such a lock is never passed on within the process.
// AtMost is an error together with FixedLease, together with a longer AtLeast, and on a Lock that
// would re-enter a hold.
func AtMost(d time.Duration) Option {
	return func(r *request) { r.lease, r.atMost = d, true }
}

// AtLeast keeps the name taken until d after the lock was acquired, also if Unlock comes
// earlier. Such an Unlock still ends the hold at once. Nobody gets the lock before that time,
// neither another process nor this one. Work that is done once per tick needs AtLeast if it
// takes less time than the difference between the clocks of the processes.
//
// If the process dies or is cut off, the name becomes free when the lease ends: choose the
// TTL for that case, and d for the difference between the clocks. A lock that is lost is not
// kept either. d may be longer than the TTL.
//
// AtLeast is for a Mutex only. A lock with AtLeast is never passed on within the process. A
// store without driver.Caps.AtLeast, another kind of lock, and a Lock that would re-enter a
// hold return an error that is errors.ErrUnsupported.
func AtLeast(d time.Duration) Option {
	return func(r *request) { r.atLeast = d }
}

// Note is a text for people, stored with this lock in place of Options.Note. Redis stores one text
// for each client and none for a lock, so there other programs may see Options.Note instead.
//
// Such a lock is not passed on within the process: the store would show waiters the note of an
// earlier holder. A Lock that re-enters a hold does not change the note of that hold.
func Note(text string) Option {
	return func(r *request) { r.note = text }
}

// Wait sets how long Lock or TryLock waits for the lock before it returns ErrBusy. 0 means one
// attempt. Without the option Wait, TryLock does not wait, and Lock waits until its context
// ends. A Wait of more than 100 years means to wait until the context ends.
func Wait(d time.Duration) Option {
	return func(r *request) { r.wait = d }
}

// RetryRefused makes Lock go on after a refusal of the store that an operator can repair while
// the program runs: an error that is driver.ErrDenied, such as a changed password or a missing
// permission, or driver.ErrUnable, such as a full memory or disk. Lock asks again after a pause
// of 250 ms, and after longer pauses up to 5 s, until ctx ends or the time of the option Wait is
// over. Then the error has the last refusal, too.
//
// Without RetryRefused, Lock returns each refusal at once. With RetryRefused, it also does so
// after a driver.ErrDenied if the store has never answered a call of this Locker, because then
// the password or the permission may be wrong since the program began. All other errors for
// which it is useless to ask again are returned at once in any case.
//
// Before each pause, Lock calls the function `report` with the refusal, if `report` is not nil.
// The Logger gets the refusal at level WARN. A fair waiter loses its place in the queue.
//
// RetryRefused is an error with LockAll. It has no effect on a TryLock without Wait, and none on
// a Lock that re-enters a hold.
func RetryRefused(report func(refusal error, pause time.Duration)) Option {
	if report == nil {
		report = func(error, time.Duration) {}
	}
	return func(r *request) { r.refused = report }
}

// request has the settings of one call.
type request struct {
	wait   time.Duration
	lease  time.Duration
	leased bool // FixedLease or AtMost has set the field `lease`
	atMost bool // AtMost has set the field `lease`: the lock is renewed until that time has passed

	atLeast time.Duration // how long the name stays taken after the grant; 0 if a release frees it

	note string

	refused func(refusal error, pause time.Duration) // RetryRefused was given: called for each refusal; otherwise nil

	permits int    // the number for a semaphore that the store does not know yet
	beside  string // for the read side: the owner of the write side, if the same caller holds it
}

// forever is the wait limit of Lock.
const forever = time.Duration(1<<63 - 1)

// limited reports whether a wait limit is a time, and neither forever nor 0.
func limited(wait time.Duration) bool { return wait > 0 && wait != forever }

// prepare checks all that can be checked before a call is sent, and returns the request.
func (l *Locker) prepare(ctx context.Context, name string, k kind, wait time.Duration, opts []Option) (request, error) {
	if err := l.check(name); err != nil {
		return request{}, err
	}
	if !k.supported(l.info.Caps) {
		return request{}, l.unsupported(k.String() + " locks")
	}
	r, err := l.request(wait, opts)
	if err == nil {
		err = l.checkAtLeast(k, r.atLeast)
	}
	if err == nil && ctx.Err() != nil {
		err = retry.ContextError(ctx)
	}
	return r, err
}

func (l *Locker) request(wait time.Duration, opts []Option) (request, error) {
	r := request{wait: wait, lease: l.ttl, note: l.note}
	if len(opts) > 0 { // the usual call has none, and needs no allocation
		r = r.with(opts)
	}
	if r.wait < 0 {
		return r, fmt.Errorf("wait of %s is negative", r.wait)
	}
	if r.wait > clock.Longest {
		r.wait = forever
	}
	return r, l.checkEnd(&r)
}

func (r request) with(opts []Option) request {
	for _, opt := range opts {
		opt(&r)
	}
	return r
}

// checkEnd returns an error if a request sets an invalid end of the lock. It sets r.leased if
// AtMost has set the end.
func (l *Locker) checkEnd(r *request) error {
	info := l.info
	what := "lease"
	if r.atMost {
		what = "AtMost"
	}
	if r.atMost || info.SessionTTL > 0 {
		info.MaxTTL = 0 // see leaseTTL
	}
	switch {
	case r.atMost && r.leased:
		return errors.New("FixedLease and AtMost both set the end of the lock: give only one of them")
	case !r.leased && !r.atMost:
		return nil
	case r.atMost && r.lease > 0 && r.atLeast > r.lease:
		return fmt.Errorf("AtLeast of %s is longer than AtMost of %s", r.atLeast, r.lease)
	}
	r.leased = true
	return checkTTL(what, r.lease, info)
}

// checkAtLeast returns an error if AtLeast cannot keep the name of a lock of the kind k for the
// time d.
func (l *Locker) checkAtLeast(k kind, d time.Duration) error {
	info := l.info
	switch {
	case d == 0:
		return nil
	case d < 0:
		return fmt.Errorf("AtLeast of %s is negative", d)
	case k != plain:
		return fmt.Errorf("AtLeast is for a Mutex, not for %s locks: %w", k, errors.ErrUnsupported)
	case !info.Caps.AtLeast:
		return l.unsupported("AtLeast")
	case d > mostKept(info):
		return fmt.Errorf("AtLeast of %s is too long: %s keeps a name for at most %s", d, info.Name, mostKept(info))
	}
	return nil
}

// mostKept is the longest time that a store keeps a name taken after its release. A store with
// sessions keeps it apart from any session.
func mostKept(info driver.Info) time.Duration {
	if info.SessionTTL > 0 {
		return clock.Longest
	}
	return mostTTL(info)
}

// leaseTTL returns the TTL for the claim of a request. A store with Info.SessionTTL keeps every
// claim for the time SessionTTL. If the request has a longer lease, the Locker renews the claim
// until that lease ends.
func (l *Locker) leaseTTL(r *request) time.Duration {
	switch {
	case l.info.SessionTTL > 0:
		return l.info.SessionTTL
	case r.atMost:
		return min(r.lease, l.ttl)
	}
	return r.lease
}

// left returns how much longer a call that began at `began` may wait. When the time is over,
// left returns 1ns and not 0, because 0 means a try that does not wait, and such a try has
// another time limit.
func (r request) left(began time.Time) time.Duration {
	if r.wait == 0 || r.wait >= clock.Longest {
		return r.wait
	}
	return max(r.wait-time.Since(began), 1)
}
