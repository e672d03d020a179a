package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	defaultTTL = 30 * time.Second
	// minTTL is the shortest lease that leaves time to be renewed over a network.
	minTTL = 10 * time.Millisecond
)

// Options are the settings of a Locker. A zero field means the default.
type Options struct {
	// TTL is the lease: how long a lock stays after its holder stops renewing it. A held lock
	// is renewed every TTL/3. TTL must be between 10ms and 100 years. Default 30s, or the
	// nearest value that the store allows.
	TTL time.Duration

	// Margin is how long before the end of its lease a lock counts as lost. It covers the
	// difference between the rates of two clocks, and the time that a holder needs to stop.
	// Default TTL/10. Margin must be less than TTL/2. The store may grant a lease that is
	// shorter than the TTL. For example, on Redis the release of a fair lock grants a short
	// lease to the next waiter. With the default, the margin of a short lease is a tenth of
	// that lease. If you set Margin to two thirds of a short lease or more, no time is left to
	// renew that lease, so Lock returns an error.
	Margin time.Duration

	// Note is a text for people, stored with the lock. Default "program@host:pid".
	Note string

	// Anonymous keeps information about this client out of the store: where it runs, what
	// it holds and what it waits for. Only the locks themselves are written. There is no
	// default Note then, but an explicit Note is written.
	Anonymous bool

	// Logger gets the events that no call can return: losses, renewals that fail or are late,
	// clean-up that fails, and, once, a store that grants a much shorter lease than the TTL.
	// Default: no log.
	Logger *slog.Logger

	// Observe gets each event. It is called by the goroutine that causes the event or by
	// another one, and never while the Locker holds an internal mutex. Observe may be slow:
	// only the call that caused the event waits for it, no other lock and no renewal. While
	// Observe handles a renewal of a lock, later renewals of that lock are not reported, except
	// the latest one, which is reported after that. The Observe of an audit.Writer writes events to the store.
	Observe func(context.Context, Event)

	// Handoff limits how long a lock may go from goroutine to goroutine of this Locker
	// before it is released in the store.
	Handoff Handoff

	// AsyncUnlock lets Unlock return as soon as the release is queued in this process. Unlock
	// then waits neither for the request to be sent nor for the answer of the store, but still
	// returns a loss that this process knows of. Observe and the Logger get the answer of the
	// store, as EventRelease or EventLoss. Until the answer has come, another goroutine of this
	// Locker that asks for the same name does not find the name busy because of that release:
	// it waits until the store has answered, or until the process does not repeat the release
	// any more, which is after 3 s at the latest.
	//
	// Call Drain before the program ends. A program that ends right after Unlock, without
	// Drain, has often not sent the release, and the name then stays taken until the lease ends.
	//
	// AsyncUnlock saves half of the round trips of short holds. But an Unlock that returned nil
	// does not prove that the lock was held until then. If you need that proof, use Do, whose
	// error shows a loss, or a fencing token. AsyncUnlock has an effect on a Mutex and on the
	// write side of a RWMutex, in Redis only. The Unlock of Do, DoAll, LockAll, AtLeast,
	// FairMutex and WithOwner always waits, and so does each Unlock in another store.
	AsyncUnlock bool
}

// Option changes the settings for one call.
type Option func(*request)

// Lease fixes the end of the lock: it ends after d, even without Unlock. d must be
// between 10ms and 100 years.
//
// The lock is not extended, so it also ends if the process dies. The exception is a store
// with driver.Info.SessionTTL: there Holdfast renews the lock, if necessary, until d has
// passed, and then releases it. If the process dies, the lock ends with the session.
//
// If a lock with Lease is held for two seconds or longer, the Locker checks it as often as it
// renews other locks. So the holder is notified if somebody ends the lock by force.
func Lease(d time.Duration) Option {
	return func(r *request) { r.lease, r.leased = d, true }
}

// AtMost limits how long the lock is held: for d at most, also if its holder never unlocks it.
// Holdfast renews the lock until then. The lock is lost one margin before d has passed, with
// driver.ReasonExpired, and another client can get it when d has passed. If the process dies or
// is cut off, the name becomes free as early as without AtMost, and never later than d after
// the grant. d must be between 10ms and 100 years; if d is not longer than the TTL, AtMost is
// the same as Lease.
//
// The store ends the lock by itself when d has passed. The exception is a store with
// driver.Info.SessionTTL: there Holdfast releases the lock at that time. If the process is dead
// or cut off by then, the lock ends with the session of the process. d counts on the monotonic
// clock, so the time while the machine is suspended does not count.
//
// AtMost works with each kind of lock. Such a lock is never passed on within the process.
// AtMost is an error together with Lease, together with a longer AtLeast, and on a Lock that
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

// Note is a text for people, stored with this lock in place of Options.Note. Such a lock is not
// passed on within the process: the store would show waiters the note of an earlier holder. A
// Lock that re-enters a hold does not change the note of that hold.
func Note(text string) Option {
	return func(r *request) { r.note = text }
}

// Wait sets how long Lock or TryLock waits for the lock before it returns ErrBusy. 0 means one
// attempt. Without the option Wait, TryLock does not wait, and Lock waits until its context
// ends. A Wait of more than 100 years means to wait until the context ends.
func Wait(d time.Duration) Option {
	return func(r *request) { r.wait = d }
}

// settings are Options with the defaults filled in, and checked.
type settings struct {
	ttl, margin time.Duration
	note        string
	anonymous   bool
	log         *slog.Logger
	observe     func(context.Context, Event)
	handoff     Handoff
	asyncUnlock bool

	marginChosen bool
}

func (o *Options) settings(info driver.Info) (settings, error) {
	if o == nil {
		o = &Options{}
	}
	s := settings{ttl: o.TTL, margin: o.Margin, note: o.Note, anonymous: o.Anonymous, log: o.Logger, observe: o.Observe, handoff: o.Handoff.withDefaults(info), asyncUnlock: o.AsyncUnlock, marginChosen: o.Margin != 0}
	if s.ttl == 0 {
		s.ttl = cmp.Or(info.SessionTTL, min(max(defaultTTL, info.MinTTL), mostTTL(info)))
	}
	if s.margin == 0 {
		s.margin = s.ttl / 10
	}
	if s.note == "" && !s.anonymous {
		s.note = defaultNote()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := checkTTL("TTL", s.ttl, info); err != nil {
		return s, err
	}
	if info.SessionTTL > 0 && s.ttl != info.SessionTTL {
		return s, fmt.Errorf("TTL of %s: %s keeps all locks of a client for %s; change that with %s", s.ttl, info.Name, info.SessionTTL, info.SessionOption)
	}
	if s.handoff.For < 0 {
		return s, fmt.Errorf("handoff for %s is negative", s.handoff.For)
	}
	if s.margin < 0 || s.margin >= s.ttl/2 {
		return s, fmt.Errorf("margin of %s does not fit a TTL of %s: the margin must be positive, and less than half of the TTL", s.margin, s.ttl)
	}
	return s, nil
}

func checkTTL(what string, d time.Duration, info driver.Info) error {
	least := max(minTTL, info.MinTTL)
	switch {
	case d < 0:
		return fmt.Errorf("%s of %s is negative", what, d)
	case d < least:
		return fmt.Errorf("%s of %s is too short: %s keeps a lock for at least %s", what, d, info.Name, least)
	case d > mostTTL(info):
		return fmt.Errorf("%s of %s is too long: %s keeps a lock for at most %s", what, d, info.Name, mostTTL(info))
	}
	return nil
}

// mostTTL is the longest lease that can be asked of a store.
func mostTTL(info driver.Info) time.Duration {
	if info.MaxTTL > 0 {
		return min(info.MaxTTL, clock.Longest)
	}
	return clock.Longest
}

func defaultNote() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	program := "unknown"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return fmt.Sprintf("%s@%s:%d", program, host, os.Getpid())
}

// marginOf returns the margin of a lease that the store keeps for the time `validFor`. If the
// user has not chosen a margin, the margin is at most a tenth of that lease.
func (s *settings) marginOf(validFor time.Duration) time.Duration {
	if s.marginChosen {
		return s.margin
	}
	return min(s.margin, validFor/10)
}

// margin returns the margin of the lease that the store has granted to the claim, for the time
// `validFor`.
func (a *acquisition) margin(validFor time.Duration) time.Duration {
	margin := a.locker.marginOf(validFor)
	if a.req.leased {
		margin = min(margin, a.req.lease/10)
	}
	return margin
}

// renewable reports whether there is time to renew a lease that lasts for the time `validFor`.
// The renewal is due after a third of the lease, and has to come before the margin begins.
func renewable(validFor, margin time.Duration) bool { return margin < validFor-validFor/3 }

// fitMargin returns the grant `out` if its lease is long enough for the margin. If the lease is
// too short, fitMargin renews the claim to find out how long a lease the store grants: with
// sessions, a grant may have only the rest of a session. If the lease of the renewal is long
// enough, fitMargin returns the grant with that lease. If not, it returns an error, because no
// later try would get more.
func (a *acquisition) fitMargin(ctx context.Context, out driver.Outcome) (driver.Outcome, error) {
	margin := a.margin(out.ValidFor)
	if !a.locker.marginChosen || renewable(out.ValidFor, margin) {
		return out, nil
	}
	asked := a.locker.clock.Read()
	call := deadline.New(ctx, time.Now().Add(retry.Timeout(a.claim.TTL, 0)))
	defer call.End()
	answers, err := a.locker.backend.Renew(call, []driver.Claim{a.claim})
	if err != nil || len(answers) != 1 || answers[0].Err != nil {
		return out, nil // the grant will be found to be too late, and the next try has the error
	}
	if validFor := answers[0].ValidFor; !renewable(validFor, a.margin(validFor)) {
		a.grantUnused = true
		return out, fmt.Errorf("lock %q: a margin of %s leaves no time to renew a lease of %s, which %s grants instead of %s; "+
			"choose a margin of less than %s, or none", a.claim.Name, margin, validFor.Round(time.Millisecond), a.locker.info.Name, a.locker.ttl, renewLimit(validFor))
	}
	a.asked, out.ValidFor = asked, answers[0].ValidFor
	return out, nil
}

// renewLimit returns the limit for the margin of a lease that lasts for the time `validFor`,
// rounded down for the text of an error. A margin below the limit leaves time to renew the
// lease.
func renewLimit(validFor time.Duration) time.Duration {
	return (validFor - validFor/3).Truncate(time.Millisecond)
}
