package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
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
		Long: `Demo runs many buyers who race for few items, in several processes: first without a
lock, then with one. Then it pauses a process that holds the lock. Another process gets
the lock, and a fencing token stops the late write of the first one.

Without --url the demo starts an in-process Redis stand-in, so it needs no
installation. With --url it uses that Redis, one server: all its keys begin with
"holdfast-demo:" and are deleted at the end. With another URL it takes its
locks in that etcd, ZooKeeper, PostgreSQL or MySQL; in a database one row stays.
HOLDFAST_URL and REDIS_URL are ignored.

With --serve it serves the dashboard of its locks and a page of scenes until Ctrl-C: two
instances that take the same lock, and can be paused, killed and cut off; a sale with a
lock and without one; workers that race for a majority of several Redis servers. Then
--url may be any deployment of Redis, and may be given several times, for the race. The
keys begin with "{holdfast-demo}:".

The exit status is 0 if all results are as the demo says, else 1.`,
		Example: `  holdfast demo
  holdfast demo --buyers 500 --items 20 --processes 8
  holdfast demo --url redis://localhost:6379 --look 30s
  holdfast demo --serve
  holdfast demo --serve --listen 127.0.0.1:7072 --url redis://localhost:6379`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if web.serve {
				return serveDemo(cmd, env, c, web)
			}
			if len(web.more) > 0 || cmd.Flags().Changed("listen") || web.noAuth {
				return output.UsageError("--listen, --insecure-no-auth, and more than one --url, belong to --serve")
			}
			if !cmd.Flags().Changed("look") {
				o.Look = defaultLook(o.Out)
			}
			return runDemo(cmd.Context(), env, c, o)
		},
	}
	flags := cmd.Flags()
	c.AddTo(flags, "default: an in-process stand-in")
	web.addTo(flags)
	flags.IntVar(&o.Buyers, "buyers", 60, "number of buyers")
	flags.IntVar(&o.Items, "items", 10, "number of items, less than --buyers")
	flags.IntVar(&o.Processes, "processes", 3, "number of processes of the buyers")
	flags.DurationVar(&o.Timeout, "timeout", 15*time.Second, "give up after this time, to which --look is added")
	flags.DurationVar(&o.Look, "look", 0, "how long to show a held lock (default 3s on a terminal, else 1.5s)")
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
	_, plain := env.Lookup("NO_COLOR") // it is about colours only (no-color.org)
	o.Color = o.Terminal && !plain
	if err := o.Check(); err != nil {
		return output.UsageError("%w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	ctx, stop := supervise.Interruptible(ctx, signals)
	defer stop()

	switch {
	case c.URL == "" && !c.OnlyURL():
		return output.UsageError("the stand-in needs no password and no certificates: give --url with them")
	case c.URL != "":
		if store.KindOf(c.URL) == open.Redis {
			o.Access, err = reachDemoStore(ctx, c, env)
		} else {
			o.Locks, err = reachDemoLocks(ctx, c, env)
		}
		if err != nil {
			if i := supervise.InterruptOf(ctx); i != nil {
				return &output.ExitError{Code: i.Status(), Err: err}
			}
			return err
		}
	}
	err = demo.Run(ctx, o)
	if i := supervise.InterruptOf(ctx); i != nil && err != nil {
		return &output.ExitError{Code: i.Status(), Err: err}
	}
	return err
}

// reachDemoStore connects once to the Redis that the flags name, and returns how to reach it.
func reachDemoStore(ctx context.Context, o store.Connection, env output.Environment) (access.Access, error) {
	report := output.NewReporter(env, false)
	address, source, err := o.Address(env)
	if err != nil {
		return access.Access{}, err
	}
	if err := demo.CheckURL(address); err != nil {
		return access.Access{}, output.UsageError("%s: %w", source, err)
	}
	a, err := o.Access(ctx, address, env, report)
	if err != nil {
		return access.Access{}, err
	}
	o.Warn(report, address)
	conn, err := a.Open(ctx)
	if err != nil {
		return access.Access{}, store.OpenError(ctx, open.Redis, source, err)
	}
	conn.Close()
	return a, nil
}

// reachDemoLocks takes a lock once in the store that the flags name, which is not Redis, and
// returns how to reach it.
func reachDemoLocks(ctx context.Context, o store.Connection, env output.Environment) (access.Access, error) {
	report := output.NewReporter(env, false)
	address, source, err := o.Address(env)
	if err != nil {
		return access.Access{}, err
	}
	a, err := o.Access(ctx, address, env, report)
	if err != nil {
		return access.Access{}, err
	}
	target, err := open.Parse(open.Request{Access: a})
	if err != nil {
		return access.Access{}, output.UsageError("%s: %w", source, err)
	}
	if !target.Info().Caps.Fencing {
		return access.Access{}, store.Lacks(target, "has no fencing tokens in that layout, and the demo is about them")
	}
	o.Warn(report, address)
	if err := demo.Try(ctx, target); err != nil {
		return access.Access{}, output.StoreError(store.Failure(target.Kind, err))
	}
	return a, nil
}

// defaultLook returns how long to show a held lock: longer on a terminal, so that a person
// can type a command into another terminal.
func defaultLook(out io.Writer) time.Duration {
	if output.IsTerminal(out) {
		return 3 * time.Second
	}
	return 1500 * time.Millisecond
}
