package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	// drainWait is how long the program stays to see its claims confirmed as gone.
	drainWait = 3 * time.Second
	// drainAfter is how long it stays after the end of its lock's lease. What is
	// left then are renewals that the store has not answered.
	drainAfter = 300 * time.Millisecond
)

// drain lets the library finish its clean-up: a lock that was left behind would
// block others until its lease ends.
func drain(locker *holdfast.Locker) { drainFor(locker, drainWait) }

// drainFor is drain within wait, and says whether all was confirmed. What was not,
// the lease ends.
func drainFor(locker *holdfast.Locker, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return locker.Drain(ctx) == nil
}

// unlock releases the lock, and remembers when its lease ends at the latest.
func (o *lockOptions) unlock(lock *holdfast.Lock) error {
	o.leaseEnd = time.Now().Add(lock.Remaining())
	err := lock.Unlock()
	o.unconfirmed = err != nil && !errors.Is(err, holdfast.ErrLost)
	return err
}

// drain is drain for the lock that unlock released, if it did. It says whether the
// store has answered all that it was asked.
func (o *lockOptions) drain(locker *holdfast.Locker) bool {
	wait := drainWait
	if !o.leaseEnd.IsZero() {
		wait = min(wait, max(time.Until(o.leaseEnd), 0)+drainAfter)
	}
	return drainFor(locker, wait) && !o.unconfirmed
}

// open opens the store, unless a signal comes first, and closes it when work is
// done. What work holds is shown to others with note.
func (o *lockOptions) open(ctx context.Context, env output.Environment, report *output.Reporter, signals <-chan os.Signal,
	note string, work func(driver.Backend, *holdfast.Locker) error,
) error {
	logger, err := report.LibraryLogger(env)
	if err != nil {
		return err
	}
	opening, done := interruptible(ctx, signals)
	defer done()
	if err := o.openStore(opening, env, report, logger); err != nil {
		return o.notAcquired(opening, err)
	}
	answers := true
	defer func() {
		if answers { // else closing takes as long as the store is waited for, and the end of the program does it
			o.store.Close()
		}
	}()
	done()
	if interrupt := interruptOf(opening); interrupt != nil {
		return output.Exit(interrupt.status())
	}
	backend := o.store.Backend
	o.attempts = newAttempts()
	observers := []observer{o.attempts.observe, o.warnOfPermits(report)}
	if source, ok := backend.(admin.Source); ok && o.EventLog {
		log := audit.New(source, &audit.Options{Logger: logger})
		defer func() {
			if answers {
				flush(log)
			}
		}()
		observers = append(observers, log.Observe)
	}
	o.console = admin.New(backend)
	locker := holdfast.New(backend, &holdfast.Options{TTL: o.ttl, Margin: o.Config.Duration("lock.margin"), Note: note, Logger: logger, Observe: all(observers)})
	defer func() { answers = o.drain(locker) }()
	return work(backend, locker)
}

// openStore opens the store, for which --wait waits too, and a candidate however long.
func (o *lockOptions) openStore(ctx context.Context, env output.Environment, report *output.Reporter, logger *slog.Logger) (err error) {
	limit, began := o.wait, time.Now()
	if o.campaigns {
		limit = store.Forever
	}
	o.store, err = o.OpenWaiting(ctx, store.Request{Name: o.name, TTL: o.ttl, Need: o.needs, Logger: logger}, limit, env, report)
	if o.wait > 0 {
		o.wait = max(o.wait-time.Since(began), time.Millisecond)
	}
	return err
}

// observer is a holdfast.Options.Observe; it may be nil.
type observer = func(context.Context, holdfast.Event)

// all calls each of the observers.
func all(observers []observer) observer {
	observers = slices.DeleteFunc(observers, func(o observer) bool { return o == nil })
	return func(ctx context.Context, e holdfast.Event) {
		for _, observe := range observers {
			observe(ctx, e)
		}
	}
}

// flush writes what has been taken in for the event log.
func flush(log *audit.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	_ = log.Flush(ctx) // the log says what is missing
}

// warnOfPermits says if the semaphore has another number of permits than the command
// line: people may have changed that, and wait for it to have an effect.
func (o *lockOptions) warnOfPermits(report *output.Reporter) observer {
	if o.permits == 0 {
		return nil
	}
	return func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventAcquire && e.Permits != 0 {
			report.Warn("semaphore %q has %s, not %d, and goes on with that; to change it: holdfast resize %[1]s %[3]d", output.Clean(e.Name), output.Plural(e.Permits, "permit"), o.permits)
		}
	}
}

// acquire takes the lock as the flags say.
func (o *lockOptions) acquire(ctx context.Context, locker *holdfast.Locker, env output.Environment, report *output.Reporter) (lock *holdfast.Lock, err error) {
	err = o.ask(ctx, env, report, func(ctx context.Context, _ func()) error {
		lock, err = o.take(ctx, locker)
		return err
	})
	return lock, err
}

// ask calls request, which asks for the lock. While it waits, people see for whom: until it
// calls granted or returns.
func (o *lockOptions) ask(ctx context.Context, env output.Environment, report *output.Reporter, request func(ctx context.Context, granted func()) error) error {
	report.Detail("asking for lock %q", o.name)
	o.leaseEnd = time.Time{}
	if o.nonblock {
		return request(ctx, func() {})
	}
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	p := o.startProgress(ctx, giveUp, env, report)
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

func (o *lockOptions) take(ctx context.Context, locker *holdfast.Locker) (*holdfast.Lock, error) {
	options := o.options()
	if o.wait > 0 {
		options = append(options, holdfast.Wait(o.wait))
	}
	try := o.nonblock || o.wait > 0
	switch {
	case o.permits > 0 && try:
		return locker.Semaphore(o.name, o.permits).TryAcquire(ctx, options...)
	case o.permits > 0:
		return locker.Semaphore(o.name, o.permits).Acquire(ctx, options...)
	case try:
		return o.mutex(locker).TryLock(ctx, options...)
	default:
		return o.mutex(locker).Lock(ctx, options...)
	}
}

// options are those of the lock, but for how long it is waited for.
func (o *lockOptions) options() (options []holdfast.Option) {
	switch {
	case o.maxHold > 0: // with --no-renew it is less than --ttl, and so not renewed
		options = append(options, holdfast.AtMost(o.maxHold))
	case o.noRenew:
		options = append(options, holdfast.Lease(o.ttl))
	}
	if o.keep > 0 {
		options = append(options, holdfast.AtLeast(o.keep))
	}
	return options
}

// mutex is the lock, where it is not a semaphore.
func (o *lockOptions) mutex(locker *holdfast.Locker) *holdfast.Mutex {
	switch {
	case o.fair:
		return locker.FairMutex(o.name)
	case o.shared:
		return locker.RWMutex(o.name).Read
	case o.exclusive:
		return locker.RWMutex(o.name).Write
	default:
		return locker.Mutex(o.name)
	}
}

// notAcquired turns the error of an acquire into the end of the program.
func (o *lockOptions) notAcquired(ctx context.Context, err error) error {
	if o.store != nil {
		err = store.Failure(o.store.Kind, err)
	}
	err = o.explainMismatch(err)
	var own *output.ExitError
	if interrupt := interruptOf(ctx); interrupt != nil {
		return output.Exit(interrupt.status())
	}
	switch {
	case errors.As(err, &own):
		return err
	case ctx.Err() != nil:
		return output.Exit(128 + int(syscall.SIGTERM))
	case output.StatusOf(err) == output.ExitBusy:
		return &output.ExitError{Code: o.conflictCode, Err: err}
	case o.store != nil && output.StatusOf(err) == output.ExitUnreachable:
		if why := o.store.Trouble(ctx); why != nil {
			err = fmt.Errorf("%w\n  %w", err, why)
		}
	}
	return output.StoreError(err)
}
