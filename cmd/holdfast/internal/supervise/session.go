// Package supervise holds a lock for a command. It requests the lock, shows the holder while
// it waits, runs the command, stops it before another client can get the lock, and releases
// the lock.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/internal/plural"
)

const (
	// DrainWait is the longest time that the program waits at its end for the store to confirm
	// the releases.
	DrainWait = 3 * time.Second
	// abandonWait is DrainWait for a program that got no lock, from the end of its request on. What
	// is left of the request ends with the lease.
	abandonWait = 300 * time.Millisecond
	// drainAfter is how long the program still waits after the end of the lease. At that time
	// only answers to renewals are missing.
	drainAfter = 300 * time.Millisecond
)

// Program has the environment and the messages of the process, and opens the store of the lock.
type Program struct {
	Env      output.Environment
	Report   *output.Reporter
	Logger   *slog.Logger // of the library; nil is silent
	EventLog bool         // the events of the lock are recorded in the store

	// Open opens the store. If the store cannot be reached, Open waits until the time `limit` is
	// over, or until ctx ends. A negative `limit` means that there is no limit.
	Open func(ctx context.Context, limit time.Duration) (*open.Store, error)

	// Advise adds to the error of a store what the user can do.
	Advise func(error) error
}

// session is a command that asks for a lock in a store.
type session struct {
	*Lock
	Program
	holder  string // the note that other clients can read
	without string // what follows the name of the lock in an error of a store that could not be opened

	signals    chan os.Signal
	store      *open.Store    // nil before it was opened
	console    *admin.Console // of the store
	attempts   *attempts      // the tries to get the lock
	gaveUp     time.Time      // when the last request for the lock ended without it; zero if it got the lock
	leaseEnd   time.Time      // when the released lock counts as lost at the latest; zero before the release
	freeAt     time.Time      // when others can get the released lock, if the store does not execute the release
	unreleased error          // why the store has not confirmed the release; nil if it has
}

// listen makes the channel s.signals receive the signals that a command must get. It leaves out
// signals that this program has ignored since its start, as under nohup.
func (s *session) listen() {
	s.signals = make(chan os.Signal, 16)
	for _, sig := range procgroup.Signals() {
		if !signal.Ignored(sig) {
			signal.Notify(s.signals, sig)
		}
	}
}

// Drain waits, for `limit` at most, until the library has finished its clean-up. Otherwise a
// lock that is not released would block other clients until its lease ends. Drain reports
// whether the clean-up is complete.
func Drain(locker *holdfast.Locker, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return locker.Drain(ctx) == nil
}

// unlock releases the lock, and stores in s when the lease ends at the latest.
func (s *session) unlock(lock *holdfast.Lock) error {
	left := lock.Remaining()
	s.leaseEnd, s.freeAt, s.unreleased = time.Now().Add(left), time.Now().Add(s.leaseOf(left)), nil
	err := lock.Unlock()
	if err != nil && !errors.Is(err, holdfast.ErrLost) {
		s.unreleased = err
	}
	return err
}

// warnUnreleased says until when others have to wait, if the store has not confirmed the release.
func (s *session) warnUnreleased() {
	left := time.Until(s.freeAt)
	if s.unreleased == nil || left <= 0 {
		return
	}
	cause := s.unreleased
	if inner := errors.Unwrap(cause); inner != nil { // it lacks what package holdfast says about the release
		cause = inner
	}
	s.Report.Warn("could not release %q: %s; others wait until its lease ends, in %s", output.Clean(s.Name), why(cause), output.Coarse(left))
}

// drain calls Drain. If there was no lock, it waits at most until abandonWait after the end of the
// request. After a release, it waits at most until drainAfter after the end of the lease. If the
// lock is then not released, it warns. It reports whether the store has answered all calls.
func (s *session) drain(locker *holdfast.Locker) bool {
	limit := DrainWait
	switch {
	case !s.gaveUp.IsZero():
		limit = max(time.Until(s.gaveUp.Add(abandonWait)), 0)
	case !s.leaseEnd.IsZero():
		limit = min(limit, max(time.Until(s.leaseEnd), 0)+drainAfter)
	}
	if Drain(locker, limit) {
		return s.unreleased == nil
	}
	s.warnUnreleased()
	return false
}

// withStore opens the store, calls `work`, and closes the store. A signal that arrives while
// the store is being opened ends withStore.
func (s *session) withStore(ctx context.Context, work func(*holdfast.Locker) error) error {
	s.listen()
	defer signal.Stop(s.signals)
	if err := s.unlessInterrupted(ctx, s.open, func() { s.store.Close() }); err != nil {
		return err
	}
	s.attempts = &attempts{busy: make(chan struct{}, 1), failed: make(chan struct{}, 1)}
	record, flush := func(context.Context, holdfast.Event) {}, func() {}
	if source, ok := s.store.Backend.(admin.Source); ok && s.EventLog {
		log := audit.New(source, &audit.Options{Logger: s.Logger})
		record, flush = log.Observe, func() { Flush(log) }
	}
	s.console = admin.New(s.store.Backend)
	observe := func(ctx context.Context, e holdfast.Event) {
		s.attempts.observe(e)
		s.warnOfPermits(e)
		record(ctx, e)
	}
	locker := holdfast.New(s.store.Backend, &holdfast.Options{TTL: s.TTL, Margin: s.Margin, Note: s.holder, Logger: s.Logger, Observe: observe})
	defer func() {
		if s.drain(locker) { // if not, these calls would wait for the store
			flush()
			s.store.Close()
		} else {
			go s.store.Close()
		}
	}()
	return work(locker)
}

// open opens the store, and waits for the store as Lock.Wait says. It subtracts the time that
// it has waited from a positive Wait.
func (s *session) open(ctx context.Context) (err error) {
	began := time.Now()
	s.store, err = s.Open(ctx, s.Wait)
	if s.Wait > 0 {
		s.Wait = max(s.Wait-time.Since(began), time.Millisecond)
	}
	return err
}

// Flush writes the collected entries to the event log.
func Flush(log *audit.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), DrainWait)
	defer cancel()
	_ = log.Flush(ctx) // log reports entries that are missing
}

// warnOfPermits warns if the semaphore has another number of permits than the command line:
// the user may have changed the flag, and expect an effect.
func (s *session) warnOfPermits(e holdfast.Event) {
	if s.Permits != 0 && e.Type == holdfast.EventAcquire && e.Permits != 0 {
		s.Report.Warn("semaphore %q already exists with %s, so --permits %d has no effect; to change the semaphore: holdfast resize %[1]s %[3]d", output.Clean(e.Name), plural.Count(e.Permits, "permit"), s.Permits)
	}
}

// acquire takes the lock as the flags say, unless a signal arrives before. The error has the
// exit status.
func (s *session) acquire(ctx context.Context, locker *holdfast.Locker) (*holdfast.Lock, error) {
	s.Report.Detail("asking for lock %q", s.Name)
	s.leaseEnd, s.gaveUp, s.unreleased = time.Time{}, time.Time{}, nil
	var lock *holdfast.Lock
	err := s.unlessInterrupted(ctx, func(ctx context.Context) (err error) {
		lock, err = s.wait(ctx, locker)
		if err != nil {
			s.gaveUp = time.Now()
		}
		return err
	}, func() { _ = s.unlock(lock) })
	return lock, err
}

// unlessInterrupted calls `work`, and ends the context of `work` when a signal arrives. If `work`
// succeeds although a signal has arrived, it calls `undo`. The error has the exit status.
func (s *session) unlessInterrupted(ctx context.Context, work func(context.Context) error, undo func()) error {
	ctx, done := interruptible(ctx, s.signals)
	defer done()
	if err := work(ctx); err != nil {
		return s.notAcquired(ctx, err)
	}
	done()
	status := InterruptStatus(ctx)
	if status != 0 {
		undo()
	}
	return output.Exit(status)
}

// notAcquired adds the exit status to `err`, the error of a lock that was not acquired.
func (s *session) notAcquired(ctx context.Context, err error) error {
	if s.store != nil {
		err = s.Advise(err)
	}
	err = s.explainMismatch(err)
	exit, own := errors.AsType[*output.ExitError](err)
	status := InterruptStatus(ctx)
	switch {
	case status != 0:
		return output.Exit(status)
	case own && s.store == nil && (exit.Code == output.ExitUnreachable || exit.Code == output.ExitRefused):
		return &output.ExitError{Code: exit.Code, Err: fmt.Errorf("%q %s: %w", output.Clean(s.Name), s.without, err)}
	case own:
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

// explainMismatch replaces ErrMismatch by an error that says what the store has under the name.
// It waits for this answer of the store for two seconds at most. Other errors stay unchanged.
func (s *session) explainMismatch(err error) error {
	if !errors.Is(err, holdfast.ErrMismatch) || s.console == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	found, unknown := s.console.Describe(ctx, s.Name)
	switch {
	case unknown != nil || found.Kind == "":
		return &output.ExitError{Code: output.ExitUsage, Err: err}
	case found.Kind == admin.KindOther:
		data, advice := "something", "choose another name"
		if len(found.Keys) > 0 {
			data = "a " + found.Keys[0].Type
		}
		if data == "a string" {
			advice += ", or --layout plain if another program has a lock there"
		}
		return output.UsageError("lock %q: the store has %s under that name, which is not a lock of this layout; %s", s.Name, data, advice)
	}
	return output.UsageError("lock %q is %s", s.Name, s.adviceFor(found.Kind))
}

// adviceFor returns the rest of a sentence about a lock of the kind `found`: what it is, and the
// flags that l needs for such a lock.
func (l *Lock) adviceFor(found admin.Kind) string {
	what, need := "", ""
	switch found {
	case admin.KindReadWrite:
		what, need = "a read-write lock", "--shared or --exclusive"
	case admin.KindFair:
		what, need = "a fair lock", "--fair"
	case admin.KindSemaphore:
		what, need = "a semaphore", "--permits"
	case admin.KindMutex:
		what = "a mutex"
	}
	given := l.kindFlag()
	switch {
	case what == "" || given == "" && need == "" || given != "" && strings.Contains(need, given):
		return fmt.Sprintf("in use as a lock of the kind %s: use the kind that the other programs use", found)
	case need == "" && given == "--fair":
		return what + ": remove --fair, or set lock.fair of the configuration to false"
	case need == "":
		return what + ": remove " + given
	case given == "":
		return what + ": add " + need
	default:
		return fmt.Sprintf("%s: replace %s by %s", what, given, need)
	}
}

// kindFlag returns the flag that chooses the kind of the lock, or "" for a mutex.
func (l *Lock) kindFlag() string {
	switch {
	case l.Permits > 0:
		return "--permits"
	case l.Fair:
		return "--fair"
	case l.Shared:
		return "--shared"
	case l.Exclusive:
		return "--exclusive"
	}
	return ""
}
