package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/redishold"
)

const statusLong = `Status without NAME shows the server of the locks, its latency, and the layout of the
locks there. The exit status is 69 if no lock can be taken there, because the server is
read-only or no majority of the servers works, and 77 if the store refuses. "holdfast
doctor" shows what endangers locks.

Status NAME reports whether the lock is held. The exit status is 0 if the lock is free, or
if a semaphore has a free permit; 75 if a client holds it; 1 if the name is in use for
something that is not a lock. With --quiet it prints nothing.

Otherwise the exit status is 0; 64, 69 and 77 as run.`

const statusExample = `  holdfast status
  holdfast status deploy/prod --quiet || echo "somebody deploys"`

func newStatusCommand(env output.Environment) *cobra.Command {
	o := &readOptions{}
	var quiet bool
	cmd := &cobra.Command{
		Use:                   "status [flags] [NAME]",
		Short:                 "Show the server, or whether a lock is held",
		Long:                  statusLong,
		Example:               statusExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNames(env, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] == "" {
				return output.UsageError("one name of a lock at most is expected; use: %s", cmd.UseLine())
			}
			if len(args) == 1 {
				o.name = args[0]
			}
			return o.read(cmd.Context(), cmd.Flags(), env, func(ctx context.Context, l *reader) error {
				if quiet {
					l.env.Stdout = io.Discard
				}
				if o.name != "" {
					return l.lockStatus(ctx, o.name, quiet)
				}
				return l.serverStatus(ctx)
			})
		},
	}
	o.addTo(cmd.Flags(), lookLimit)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return cmd
}

func (l *reader) lockStatus(ctx context.Context, name string, quiet bool) error {
	records, err := l.console.Get(ctx, name)
	if err != nil {
		return err
	}
	r := records[0]
	if !quiet {
		err = l.printStatus(ctx, r)
	}
	switch {
	case err != nil:
		return err
	case r.Kind == admin.KindOther:
		return output.Exit(output.ExitFailure)
	case output.IsHeld(r):
		return output.Exit(output.ExitBusy)
	default:
		return nil
	}
}

// waitingFor returns the Detail of a held lock, for its Waits: clients that wait outside the
// queue. It returns the zero Detail if nobody holds the lock, or if the store or the
// permissions do not allow to read it.
func (l *reader) waitingFor(ctx context.Context, r admin.Record) admin.Detail {
	if r.Holders == 0 {
		return admin.Detail{}
	}
	d, err := l.console.Describe(ctx, r.Name)
	if err != nil {
		return admin.Detail{}
	}
	return d
}

func (l *reader) printStatus(ctx context.Context, r admin.Record) error {
	waiting := l.waitingFor(ctx, r)
	if l.options.json {
		return output.JSONTo(l.env.Stdout).Encode(output.RecordOf(r).With(waiting.Waits))
	}
	text := output.StateText(r)
	if r.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", r.Waiting)
	}
	for _, w := range waiting.Waits {
		text += "\n  waiting: " + output.WaitText(w)
	}
	_, err := fmt.Fprintf(l.env.Stdout, "%s: %s\n", output.Clean(r.Name), text)
	return err
}

func (l *reader) serverStatus(ctx context.Context) error {
	ask := l.aboutStore
	if l.store.Redis != nil {
		ask = l.aboutRedis
	}
	s, err := ask(ctx)
	if err != nil {
		return err
	}
	s.Version, s.URL, s.Config, s.Store, s.Title = output.JSONVersion, l.store.Where, l.options.Config.Name(), string(l.store.Kind), l.store.Kind.Title()
	print := s.Print
	if l.options.json {
		print = func(w io.Writer) error { return output.JSONTo(w).Encode(s) }
	}
	return errors.Join(print(l.env.Stdout), l.unusable(ctx))
}

// unusable returns why no lock can be taken in a store that answers. It returns nil if locks
// can be taken.
func (l *reader) unusable(ctx context.Context) error {
	if err := l.store.Trouble(ctx); err != nil {
		return err
	}
	_, err := l.console.Get(ctx, "holdfast:status")
	return err
}

func (l *reader) aboutRedis(ctx context.Context) (output.ServerStatus, error) {
	info, err := l.store.Redis.Server(ctx)
	if err != nil {
		return output.ServerStatus{}, err
	}
	latency, err := latency(func() error {
		_, err := l.console.Get(ctx, "holdfast:status")
		return err
	})
	return output.ServerStatus{
		Server: info.Version, Mode: modeOf(info), Role: info.Role, Replicas: info.Replicas,
		UptimeS: int64(info.Uptime.Seconds()), Eviction: info.EvictionPolicy, Evicted: info.EvictedKeys,
		LatencyMS: latency, Layout: l.store.Layout, Prefix: l.options.Prefix, Confirms: l.options.Replicas,
	}, err
}

// aboutStore returns the status of a store that is not Redis.
func (l *reader) aboutStore(ctx context.Context) (s output.ServerStatus, err error) {
	s.Layout = l.store.Layout
	s.LatencyMS, err = latency(func() error {
		s.Server, err = l.store.Ping(ctx)
		return err
	})
	return s, err
}

func modeOf(info redishold.ServerInfo) string {
	if info.Cluster {
		return "cluster"
	}
	return "standalone"
}

// latency returns the median time of five answers, in milliseconds.
func latency(ask func() error) (float64, error) {
	var took [5]time.Duration
	for i := range took {
		begun := time.Now()
		if err := ask(); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	return float64(median(took[:]).Microseconds()) / 1000, nil
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}
