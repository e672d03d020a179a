package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

func newDemoCommand(env output.Environment) *cobra.Command {
	var c store.Connection
	o := demo.Options{Out: env.Stdout, Env: env.Environ}
	var web webOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See what a distributed lock does, in a few seconds",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(c.URLs) == 0 && !c.OnlyURL() {
				return output.UsageError("the stand-in needs no password and no certificates: give --url too, or leave out the flags for them")
			}
			if web.serve {
				return serveDemo(cmd, env, c, web)
			}
			if len(c.URLs) > 1 || cmd.Flags().Changed("listen") || web.noAuth {
				return output.UsageError("--listen, --insecure-no-auth and more than one --url can only be used with --serve")
			}
			if !cmd.Flags().Changed("look") {
				o.Look = defaultLook(o.Out)
			}
			return runDemo(cmd.Context(), env, c, o)
		},
	}
	flags := cmd.Flags()
	c.AddTo(flags, "default: an in-process stand-in")
	c.AllowSeveral(flags, "with --serve, servers for the scene with the majority")
	web.addTo(flags)
	flags.IntVar(&o.Buyers, "buyers", 60, "number of buyers")
	flags.IntVar(&o.Items, "items", 10, "number of items; must be less than --buyers")
	flags.IntVar(&o.Processes, "processes", 3, "number of processes of the buyers")
	durationVar(flags, &o.Timeout, "timeout", "", 15*time.Second, "give up after this time plus the time of --look")
	durationVar(flags, &o.Look, "look", "", 0, "how long to show a held lock (default 3s on a terminal, else 1.5s)")
	cmd.AddCommand(newDemoWorkerCommand(env))
	return cmd
}

// newDemoWorkerCommand returns the hidden command that each process of the demo runs.
func newDemoWorkerCommand(env output.Environment) *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Work(cmd.Context(), env.Stdin, env.Stdout)
		},
	}
}

// runDemo runs the demo until it ends or a signal interrupts it.
func runDemo(ctx context.Context, env output.Environment, c store.Connection, o demo.Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Worker = []string{self, "demo", "worker"}
	o.Terminal = env.LiveTerminal(env.Stdout)
	_, plain := env.Lookup("NO_COLOR") // NO_COLOR switches off only the colours (no-color.org)
	o.Color = o.Terminal && !plain
	if err := o.Check(); err != nil {
		return output.UsageError("%w", err)
	}
	ctx, stop := supervise.Interruptible(ctx)
	defer stop()

	if len(c.URLs) > 0 {
		err = reachDemo(ctx, c, env, &o)
	}
	if err == nil {
		err = demo.Run(ctx, o)
	}
	if status := supervise.InterruptStatus(ctx); status != 0 && err != nil {
		return &output.ExitError{Code: status, Err: err}
	}
	return err
}

// reachDemo checks that the demo can use the store that the flags name, and sets in o how to
// reach the store. To check Redis, reachDemo connects once. To check another store, it takes
// and releases a lock there.
func reachDemo(ctx context.Context, c store.Connection, env output.Environment, o *demo.Options) error {
	l, err := c.Locate(ctx, env, output.NewReporter(env, false))
	if err != nil {
		return err
	}
	a := l.Servers[0]
	if l.Kind == open.Redis {
		if err := demo.CheckURL(a.URL); err != nil {
			return output.UsageError("%s: %w", l.Source, err)
		}
		conn, err := a.Connect(ctx)
		if err != nil {
			return store.OpenError(ctx, open.Redis, l.Source, err)
		}
		conn.Close()
		o.Access = a
		return nil
	}
	target, err := open.Parse(open.Request{Access: a})
	if err != nil {
		return output.UsageError("%s: %w", l.Source, err)
	}
	if !target.Info().Caps.Fencing {
		return store.Lacks(target, "has no fencing tokens in that layout, but the demo needs them")
	}
	if err := demo.Try(ctx, target); err != nil {
		return output.StoreError(store.WithAdvice(err))
	}
	o.Locks = a
	return nil
}

// defaultLook returns how long to show a held lock: longer on a terminal, so that a person
// can type a command into another terminal.
func defaultLook(out io.Writer) time.Duration {
	if output.IsTerminal(out) {
		return 3 * time.Second
	}
	return 1500 * time.Millisecond
}
