package cli

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
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// readOptions are the flags of commands that show or repair locks.
type readOptions struct {
	store.Connection
	name    string // the name of the lock; "" if the command is not about one lock
	json    bool
	verbose bool
	timeout time.Duration
	goesOn  bool // trouble of the store is printed, and does not end the command
	need    store.Need
}

func (o *readOptions) addTo(f *pflag.FlagSet, timeout time.Duration) {
	f.SortFlags = false
	o.AddStoreTo(f)
	f.BoolVar(&o.json, "json", false, "print JSON, an object on each line")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens")
	if timeout > 0 {
		f.DurationVar(&o.timeout, "timeout", timeout, "give up after this time; 0 means no limit")
	}
}

// reader is an open store, with the options of the command.
type reader struct {
	options *readOptions
	env     output.Environment
	report  *output.Reporter
	store   *store.Store
	console *admin.Console
	logger  *slog.Logger // of the library
}

// read opens the store and calls work. A signal ends the context of work.
func (o *readOptions) read(ctx context.Context, f *pflag.FlagSet, env output.Environment, work func(context.Context, *reader) error) error {
	report := output.NewReporter(env, o.verbose)
	if err := o.Configure(f, env, report); err != nil {
		return err
	}
	if o.timeout < 0 {
		return output.UsageError("--timeout %s is negative", o.timeout)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	interruptible, done := supervise.Interruptible(ctx, signals)
	defer done()

	err := o.within(interruptible, env, report, work)
	if i := supervise.InterruptOf(interruptible); i != nil && errors.Is(err, context.Canceled) {
		return output.Exit(i.Status())
	}
	return storeFailure(err)
}

func (o *readOptions) within(ctx context.Context, env output.Environment, report *output.Reporter, work func(context.Context, *reader) error) error {
	logger, err := report.LibraryLogger(env)
	if err != nil {
		return err
	}
	s, err := o.Open(ctx, store.Request{Name: o.name, Need: o.need, Logger: logger}, env, report)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	l := &reader{options: o, env: env, report: report, store: s, console: admin.New(s.Backend), logger: logger}
	err = s.UnlessInTrouble(ctx, report, o.goesOn, func(ctx context.Context) error { return work(ctx, l) })
	return store.Failure(s.Kind, err)
}

// examine examines the store, for the commands doctor and serve.
func (l *reader) examine(ctx context.Context, how examine.Options, keys int) (*doctor.Report, error) {
	return l.options.Connection.Examine(ctx, l.store, how, keys, l.env)
}

// session returns the Session with which package operate lists, tails and forces locks.
func (l *reader) session() operate.Session {
	return operate.Session{Console: l.console, Env: l.env, Report: l.report, JSON: l.options.json}
}

// storeFailure returns err with the exit status for an error of the store. An err that has a
// status keeps it. If err is a closed pipe, the status is that of SIGPIPE, without a message.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return output.Exit(128 + int(syscall.SIGPIPE)) // as a command before "| head" ends
	default:
		return output.StoreError(err)
	}
}
