package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	// drainWait is how long the program waits at its end until the store has confirmed the
	// releases.
	drainWait = 3 * time.Second
	// drainAfter is how long it waits after the end of its lock's lease. Only renewals that
	// the store has not answered are left then.
	drainAfter = 300 * time.Millisecond
)

// Program is the process of a command, and the store of its lock.
type Program struct {
	Env      output.Environment
	Report   *output.Reporter
	Logger   *slog.Logger // of the library; nil is silent
	EventLog bool         // the events of the lock are recorded in the store

	// Open opens the store. If the store cannot be reached, Open waits until limit is over or
	// ctx ends. A negative limit means no limit.
	Open func(ctx context.Context, limit time.Duration) (*Store, error)
}

// Store is an open store.
type Store struct {
	Backend driver.Backend
	Close   func()
	Trouble func(context.Context) error // why no lock can be taken; nil if nothing is known
	Failure func(error) error           // adds the exit status to a refusal of the store
}

// session is a command that asks for a lock in a store.
type session struct {
	*Lock
	Program
	signals chan os.Signal
	patient bool // it waits without a limit for a store that cannot be reached

	store       *Store         // nil before it was opened
	console     *admin.Console // of that store
	attempts    *attempts      // to get the lock
	leaseEnd    time.Time      // of the lock, when it was released; zero before
	unconfirmed bool           // its release was not answered in time
}

// newSession returns a session, and a function that the caller must call at its end.
func newSession(p Program, l *Lock) (s session, done func()) {
	s = session{Lock: l, Program: p, signals: make(chan os.Signal, 16)}
	listen(s.signals)
	return s, func() { signal.Stop(s.signals) }
}

// Drain waits until the library has finished its clean-up: a lock that is not released would
// block other clients until its lease ends.
func Drain(locker *holdfast.Locker) { drainFor(locker, drainWait) }

// drainFor is Drain with a time limit. It reports whether the store has confirmed everything.
// What it has not confirmed ends with the lease.
func drainFor(locker *holdfast.Locker, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return locker.Drain(ctx) == nil
}

// unlock releases the lock, and stores the latest end of its lease in leaseEnd.
func (s *session) unlock(lock *holdfast.Lock) error {
	s.leaseEnd = time.Now().Add(lock.Remaining())
	err := lock.Unlock()
	s.unconfirmed = err != nil && !errors.Is(err, holdfast.ErrLost)
	return err
}

// drain is Drain, which waits no longer than for the end of the lease of a released lock. It
// reports whether the store has answered all calls.
func (s *session) drain(locker *holdfast.Locker) bool {
	wait := drainWait
	if !s.leaseEnd.IsZero() {
		wait = min(wait, max(time.Until(s.leaseEnd), 0)+drainAfter)
	}
	return drainFor(locker, wait) && !s.unconfirmed
}

// withStore opens the store, calls work, and closes the store. A signal ends it while it
// opens the store. The parameter note is what other clients see of the holder.
func (s *session) withStore(ctx context.Context, note string, work func(*holdfast.Locker) error) error {
	opening, done := Interruptible(ctx, s.signals)
	defer done()
	if err := s.open(opening); err != nil {
		return s.notAcquired(opening, err)
	}
	answers := true
	defer func() {
		if answers { // otherwise Close would wait for the store
			s.store.Close()
		}
	}()
	done()
	if interrupt := InterruptOf(opening); interrupt != nil {
		return output.Exit(interrupt.Status())
	}
	s.attempts = newAttempts()
	record := func(context.Context, holdfast.Event) {}
	if source, ok := s.store.Backend.(admin.Source); ok && s.EventLog {
		log := audit.New(source, &audit.Options{Logger: s.Logger})
		defer func() {
			if answers {
				Flush(log)
			}
		}()
		record = log.Observe
	}
	s.console = admin.New(s.store.Backend)
	observe := func(ctx context.Context, e holdfast.Event) {
		s.attempts.observe(e)
		s.warnOfPermits(e)
		record(ctx, e)
	}
	locker := holdfast.New(s.store.Backend, &holdfast.Options{TTL: s.TTL, Margin: s.Margin, Note: note, Logger: s.Logger, Observe: observe})
	defer func() { answers = s.drain(locker) }()
	return work(locker)
}

// open opens the store. It waits for the store for Wait at most, and without a limit if the
// session is patient. It subtracts that time from Wait.
func (s *session) open(ctx context.Context) (err error) {
	limit, began := s.Wait, time.Now()
	if s.patient {
		limit = -1
	}
	s.store, err = s.Open(ctx, limit)
	if s.Wait > 0 {
		s.Wait = max(s.Wait-time.Since(began), time.Millisecond)
	}
	return err
}

// Flush writes the collected entries to the event log.
func Flush(log *audit.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	_ = log.Flush(ctx) // log reports entries that are missing
}

// warnOfPermits warns if the semaphore has another number of permits than the command line:
// the user may have changed the flag, and expect an effect.
func (s *session) warnOfPermits(e holdfast.Event) {
	if s.Permits != 0 && e.Type == holdfast.EventAcquire && e.Permits != 0 {
		s.Report.Warn("semaphore %q has %s, not %d, and goes on with that; to change it: holdfast resize %[1]s %[3]d", output.Clean(e.Name), output.Plural(e.Permits, "permit"), s.Permits)
	}
}

// acquire takes the lock as the flags say, unless a signal arrives before. The error has the
// exit status.
func (s *session) acquire(ctx context.Context, locker *holdfast.Locker) (lock *holdfast.Lock, err error) {
	waiting, done := Interruptible(ctx, s.signals)
	defer done()
	err = s.ask(waiting, func(ctx context.Context, _ func()) error {
		lock, err = s.take(ctx, locker)
		return err
	})
	if err != nil {
		return nil, s.notAcquired(waiting, err)
	}
	done()
	return s.unlessInterrupted(lock, InterruptOf(waiting))
}

// unlessInterrupted returns lock. If a signal arrived at the moment of the grant, it releases
// the lock and returns an error.
func (s *session) unlessInterrupted(lock *holdfast.Lock, interrupt *Interruption) (*holdfast.Lock, error) {
	if interrupt == nil {
		return lock, nil
	}
	_ = s.unlock(lock)
	return nil, output.Exit(interrupt.Status())
}

// ask calls request, which requests the lock. Until request calls granted or returns, ask
// shows people the holder that it waits for.
func (s *session) ask(ctx context.Context, request func(ctx context.Context, granted func()) error) error {
	s.Report.Detail("asking for lock %q", s.Name)
	s.leaseEnd = time.Time{}
	if s.Nonblock {
		return request(ctx, func() {})
	}
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	p := s.startProgress(ctx, giveUp)
	ended := false
	err := request(waiting, func() {
		p.end(true)
		ended = true
	})
	if !ended {
		p.end(err == nil)
	}
	var nested *nestedError
	if err != nil && errors.As(context.Cause(waiting), &nested) {
		err = nested
	}
	return err
}

func (s *session) take(ctx context.Context, locker *holdfast.Locker) (*holdfast.Lock, error) {
	options := s.options()
	if s.Wait > 0 {
		options = append(options, holdfast.Wait(s.Wait))
	}
	try := s.Nonblock || s.Wait > 0
	switch {
	case s.Permits > 0 && try:
		return locker.Semaphore(s.Name, s.Permits).TryAcquire(ctx, options...)
	case s.Permits > 0:
		return locker.Semaphore(s.Name, s.Permits).Acquire(ctx, options...)
	case try:
		return s.mutex(locker).TryLock(ctx, options...)
	default:
		return s.mutex(locker).Lock(ctx, options...)
	}
}

// notAcquired returns the error of an acquire with its exit status.
func (s *session) notAcquired(ctx context.Context, err error) error {
	if s.store != nil {
		err = s.store.Failure(err)
	}
	err = s.explainMismatch(err)
	var own *output.ExitError
	if interrupt := InterruptOf(ctx); interrupt != nil {
		return output.Exit(interrupt.Status())
	}
	switch {
	case errors.As(err, &own):
		return err
	case ctx.Err() != nil:
		return output.Exit(128 + int(syscall.SIGTERM))
	case output.StatusOf(err) == output.ExitBusy:
		return &output.ExitError{Code: s.ConflictCode, Err: err}
	case s.store != nil && output.StatusOf(err) == output.ExitUnreachable:
		if why := s.store.Trouble(ctx); why != nil {
			err = fmt.Errorf("%w\n  %w", err, why)
		}
	}
	return output.StoreError(err)
}

// explainFor bounds the call that asks what a name is.
const explainFor = 2 * time.Second

// explainMismatch returns an error that says what the name is in use for, if that is
// something else than the lock of the flags.
func (s *session) explainMismatch(err error) error {
	if !errors.Is(err, holdfast.ErrMismatch) || s.console == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainFor)
	defer cancel()
	found, unknown := s.console.Describe(ctx, s.Name)
	switch {
	case unknown != nil || found.Kind == "":
		return &output.ExitError{Code: output.ExitUsage, Err: err}
	case found.Kind == admin.KindOther && len(found.Keys) > 0:
		advice := "choose another name"
		if found.Keys[0].Type == "string" {
			advice += ", or --layout plain if another program has a lock there"
		}
		return output.UsageError("lock %q: the store has a %s under that name, which is no lock of this layout; %s", s.Name, found.Keys[0].Type, advice)
	}
	if found.Kind == admin.KindOther {
		return output.UsageError("lock %q: the store has something under that name which is no lock; choose another name", s.Name)
	}
	return output.UsageError("lock %q is in use as a %s, and not as a %s: use the kind that the other programs use", s.Name, nounOf(found.Kind), nounOf(s.kind()))
}

// nounOf returns the noun for a kind of lock.
func nounOf(k admin.Kind) string {
	switch k {
	case admin.KindFair, admin.KindReadWrite, admin.KindMulti, admin.KindPlain, admin.KindTimestamp:
		return string(k) + " lock"
	default:
		return string(k)
	}
}
