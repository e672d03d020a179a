package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

// readOptions are the flags of commands that show or repair locks.
type readOptions struct {
	store.Connection
	name    string // the name of the lock; "" if the command is not about one lock
	json    bool
	verbose bool
	timeout time.Duration
	goesOn  bool // the command prints a problem of the store, and goes on
	need    func(*open.Target) error
}

func (o *readOptions) addTo(f *pflag.FlagSet, timeout time.Duration) {
	f.SortFlags = false
	o.AddStoreTo(f)
	f.BoolVar(&o.json, "json", false, "print JSON, an object on each line")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens")
	if timeout > 0 {
		durationVar(f, &o.timeout, "timeout", "", timeout, "give up after this time; 0 means no limit")
	}
}

// reader is an open store, for a command that shows or repairs locks.
type reader struct {
	operate.Session
	store  *open.Store
	logger *slog.Logger // for the messages of the library
}

// print prints a result: the object if the user asked for JSON, else the text.
func (l *reader) print(object any, text string) error {
	if l.JSON {
		return output.JSONTo(l.Env.Stdout).Encode(object)
	}
	_, err := io.WriteString(l.Env.Stdout, text)
	return err
}

// reads returns the RunE of a command. The RunE opens the store and calls the function `work`.
func (o *readOptions) reads(env output.Environment, work func(context.Context, *reader) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return o.read(cmd.Context(), cmd.Flags(), env, work) }
}

// read opens the store and calls the function `work`. The context of `work` ends after the time
// of --timeout, or when a signal arrives. The error that read returns has the exit status of the
// command.
func (o *readOptions) read(ctx context.Context, f *pflag.FlagSet, env output.Environment, work func(context.Context, *reader) error) error {
	report := output.NewReporter(env, o.verbose)
	if err := o.Configure(f, env, report); err != nil {
		return err
	}
	if err := refuseNegative(f); err != nil {
		return err
	}
	ctx, done := supervise.Interruptible(ctx)
	defer done()

	err := o.open(ctx, env, report, work)
	status := supervise.InterruptStatus(ctx)
	switch {
	case err == nil:
		return nil
	case status != 0 && errors.Is(err, context.Canceled):
		return output.Exit(status)
	case errors.Is(err, syscall.EPIPE):
		// The exit status of a command that the system ends by SIGPIPE, as in "command | head".
		return output.Exit(128 + int(syscall.SIGPIPE))
	}
	return output.StoreError(err)
}

func (o *readOptions) open(ctx context.Context, env output.Environment, report *output.Reporter, work func(context.Context, *reader) error) error {
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
	session := operate.Session{Console: admin.New(s.Backend), Env: env, Report: report, JSON: o.json}
	l := &reader{session, s, logger}
	err = store.UnlessInTrouble(ctx, s, report, o.goesOn, func(ctx context.Context) error { return work(ctx, l) })
	return store.WithAdvice(err)
}
