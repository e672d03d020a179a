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
)

// readOptions are the flags of commands that look at locks.
type readOptions struct {
	connectOptions
	prefix  string
	json    bool
	verbose bool
	timeout time.Duration
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
	env     environment
	report  *reporter
	store   *store
	console *admin.Console
	logger  *slog.Logger // of the library
}

// read opens the store and calls work. A signal ends its context.
func (o *readOptions) read(ctx context.Context, f *pflag.FlagSet, env environment, work func(context.Context, *reader) error) error {
	report := newReporter(env, o.verbose)
	if err := o.configure(f, env, report, storeSettings()); err != nil {
		return err
	}
	if o.timeout < 0 {
		return usageError("--timeout %s is negative", o.timeout)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	interruptible, done := interruptible(ctx, signals)
	defer done()

	err := o.within(interruptible, env, report, work)
	if i := interruptOf(interruptible); i != nil && errors.Is(err, context.Canceled) {
		return exit(i.status())
	}
	return storeFailure(err)
}

func (o *readOptions) within(ctx context.Context, env environment, report *reporter, work func(context.Context, *reader) error) error {
	logger, err := libraryLogger(env, report)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, storeOptions{o.connectOptions, o.prefix, 0, o.need, logger}, env, report)
	if err != nil {
		return err
	}
	defer store.Close()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	return failureOf(store.Kind, work(ctx, &reader{
		options: o, env: env, report: report, store: store, console: admin.New(store.Backend), logger: logger,
	}))
}

// storeFailure gives an error of the store its status; what is no error of the
// store has one, or is a pipe that nobody reads any more.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return exit(128 + int(syscall.SIGPIPE)) // as of "| head"
	default:
		return storeError(err)
	}
}
