package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// readOptions are the flags of commands that look at locks.
type readOptions struct {
	connectOptions
	name    string // of the lock; "" means no lock, or many
	prefix  string
	json    bool
	verbose bool
	timeout time.Duration
	goesOn  bool // the command does not end because the store is in trouble, which is printed
	need    need
}

func (o *readOptions) addTo(f *pflag.FlagSet, timeout time.Duration) {
	f.SortFlags = false
	o.addStoreTo(f)
	f.StringVar(&o.prefix, "prefix", "", "put before the keys in the store, and left out of the names (default $HOLDFAST_PREFIX)")
	markConnection(f, "prefix")
	f.BoolVar(&o.json, "json", false, "print JSON, an object on each line")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say what happens")
	if timeout > 0 {
		f.DurationVar(&o.timeout, "timeout", timeout, "give up after this; 0 never does")
	}
}

// reader is an open store that the command only reads.
type reader struct {
	options *readOptions
	env     output.Environment
	report  *output.Reporter
	store   *store
	console *admin.Console
	logger  *slog.Logger // of the library
}

// read opens the store and calls work. A signal ends its context.
func (o *readOptions) read(ctx context.Context, f *pflag.FlagSet, env output.Environment, work func(context.Context, *reader) error) error {
	report := output.NewReporter(env, o.verbose)
	if err := o.configure(f, env, report, storeSettings()); err != nil {
		return err
	}
	if o.timeout < 0 {
		return output.UsageError("--timeout %s is negative", o.timeout)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	interruptible, done := interruptible(ctx, signals)
	defer done()

	err := o.within(interruptible, env, report, work)
	if i := interruptOf(interruptible); i != nil && errors.Is(err, context.Canceled) {
		return output.Exit(i.status())
	}
	return storeFailure(err)
}

func (o *readOptions) within(ctx context.Context, env output.Environment, report *output.Reporter, work func(context.Context, *reader) error) error {
	logger, err := report.LibraryLogger(env)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, storeOptions{o.connectOptions, o.name, o.prefix, 0, o.need, logger}, env, report)
	if err != nil {
		return err
	}
	defer store.Close()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	work = o.unlessInTrouble(work)
	return failureOf(store.Kind, work(ctx, &reader{
		options: o, env: env, report: report, store: store, console: admin.New(store.Backend), logger: logger,
	}))
}

// A store that has not answered so long after it was connected to is asked what is wrong,
// and once more where it says so: a leader may just be elected.
const (
	answerGrace   = 800 * time.Millisecond
	electionGrace = 600 * time.Millisecond
)

// unlessInTrouble makes work end once the servers have said why they cannot answer, or, if
// it goes on, prints the reason. A store that says nothing at all is waited for.
func (o *readOptions) unlessInTrouble(work func(context.Context, *reader) error) func(context.Context, *reader) error {
	return func(ctx context.Context, l *reader) error {
		ctx, cancel := context.WithCancelCause(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			switch err := l.lastingTrouble(ctx); {
			case err == nil:
			case o.goesOn:
				l.report.Once(output.LevelNotice, err.Error())
			default:
				cancel(&output.ExitError{Code: output.ExitUnreachable, Err: err})
			}
		}()
		err := work(ctx, l)
		var why *output.ExitError
		if err != nil && errors.As(context.Cause(ctx), &why) {
			err = why
		}
		cancel(nil)
		<-done
		return err
	}
}

// lastingTrouble returns why the store does not answer, nil if it is not known, or if ctx
// ended first. It says so where it is not known.
func (l *reader) lastingTrouble(ctx context.Context) error {
	if !retry.Sleep(ctx, answerGrace) {
		return nil
	}
	if l.troubleNow(ctx) == nil {
		return nil
	}
	if !retry.Sleep(ctx, electionGrace) {
		return nil
	}
	return l.troubleNow(ctx)
}

// troubleNow is one attempt of lastingTrouble.
func (l *reader) troubleNow(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, electionGrace/2)
	defer cancel()
	err := l.store.Trouble(limited)
	if errors.Is(err, open.ErrReadOnly) { // to look at locks is possible
		return nil
	}
	if err == nil && limited.Err() != nil && ctx.Err() == nil {
		l.report.Once(output.LevelNotice, "the store does not answer")
	}
	return err
}

// storeFailure gives an error of the store its status; what is no error of the
// store has one, or is a pipe that nobody reads any more.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return output.Exit(128 + int(syscall.SIGPIPE)) // as of "| head"
	default:
		return output.StoreError(err)
	}
}
