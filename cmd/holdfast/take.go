package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// drainWait is how long the program stays to see its claims confirmed as gone.
const drainWait = 3 * time.Second

// drain lets the library finish its clean-up: a lock that was left behind would
// block others until its lease ends.
func drain(locker *holdfast.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), drainWait)
	defer cancel()
	_ = locker.Drain(ctx) // what is not confirmed by then, the lease ends
}

// open opens the store, unless a signal comes first, and closes it when work is
// done. What work holds is shown to others with note.
func (o *lockOptions) open(ctx context.Context, env environment, report *reporter, signals <-chan os.Signal,
	note string, work func(driver.Backend, *holdfast.Locker) error,
) error {
	logger, err := libraryLogger(env, o.verbose)
	if err != nil {
		return err
	}
	opening, done := interruptible(ctx, signals)
	defer done()
	store, shut, err := o.openBackend(opening, env, report, logger)
	if err != nil {
		return o.notAcquired(opening, err)
	}
	defer shut()
	done()
	if interrupt := interruptOf(opening); interrupt != nil {
		return exit(interrupt.status())
	}
	locker := holdfast.New(store, &holdfast.Options{TTL: o.ttl, Margin: o.margin(), Note: note, Logger: logger, History: o.history})
	defer drain(locker)
	defer heed(locker)()
	return work(store, locker)
}

// acquire takes the lock as the flags say. While it waits, people are told for
// whom.
func (o *lockOptions) acquire(ctx context.Context, locker *holdfast.Locker, env environment, report *reporter) (*holdfast.Lock, error) {
	report.detail("asking for lock %q", o.name)
	if o.nonblock || o.skipOK && !isTerminal(env.stderr) { // which is to leave no word in the mail of cron
		return o.take(ctx, locker)
	}
	p := startProgress(ctx, locker, o.name, env, report)
	lock, err := o.take(ctx, locker)
	p.end(err == nil)
	return lock, err
}

func (o *lockOptions) take(ctx context.Context, locker *holdfast.Locker) (*holdfast.Lock, error) {
	var options []holdfast.Option
	if o.noRenew {
		options = append(options, holdfast.Lease(o.ttl))
	}
	if o.wait > 0 {
		options = append(options, holdfast.Wait(o.wait))
	}
	try := o.nonblock || o.wait > 0
	if o.permits > 0 {
		s := locker.Semaphore(o.name, o.permits)
		if try {
			return s.TryAcquire(ctx, options...)
		}
		return s.Acquire(ctx, options...)
	}
	m := locker.Mutex(o.name)
	switch {
	case o.fair:
		m = locker.FairMutex(o.name)
	case o.shared:
		m = locker.RWMutex(o.name).Read
	case o.exclusive:
		m = locker.RWMutex(o.name).Write
	}
	if try {
		return m.TryLock(ctx, options...)
	}
	return m.Lock(ctx, options...)
}

// notAcquired turns the error of an acquire into the end of the program.
func (o *lockOptions) notAcquired(ctx context.Context, err error) error {
	var own *exitError
	if interrupt := interruptOf(ctx); interrupt != nil {
		return exit(interrupt.status())
	}
	switch {
	case errors.As(err, &own):
		return err
	case ctx.Err() != nil:
		return exit(128 + int(syscall.SIGTERM))
	case !errors.Is(err, holdfast.ErrBusy):
		return storeError(err)
	default:
		return &exitError{code: o.conflictCode, err: err}
	}
}
