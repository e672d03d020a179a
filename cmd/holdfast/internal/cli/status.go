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
)

func newStatusCommand(env output.Environment) *cobra.Command {
	o := &readOptions{}
	var quiet bool
	cmd := &cobra.Command{
		Use:               "status [flags] [NAME]",
		Short:             "Show the server, or whether a lock is held",
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneName(&o.name)(cmd, args)
		},
		RunE: o.reads(env, func(ctx context.Context, l *reader) error {
			if quiet {
				l.Env.Stdout = io.Discard
			}
			if o.name != "" {
				return l.lockStatus(ctx, o.name, quiet)
			}
			return o.serverStatus(ctx, l)
		}),
	}
	o.addTo(cmd.Flags(), lookLimit)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return cmd
}

func (l *reader) lockStatus(ctx context.Context, name string, quiet bool) error {
	records, err := l.Console.Get(ctx, name)
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

func (l *reader) printStatus(ctx context.Context, r admin.Record) error {
	var waits []admin.ClientWait // the waits of clients that have no place in the queue
	if r.Holders > 0 {
		if d, err := l.Console.Describe(ctx, r.Name); err == nil { // some stores cannot describe a lock, and some users may not
			waits = d.Waits
		}
	}
	text := output.Clean(r.Name) + ": " + output.StateText(r)
	if r.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", r.Waiting)
	}
	for _, w := range waits {
		text += "\n  waiting: " + output.WaitText(w)
	}
	return l.print(output.RecordOf(r, waits...), text+"\n")
}

// serverStatus prints the status of the server. It returns an error if the store does not
// answer, or if no lock can be taken in it.
func (o *readOptions) serverStatus(ctx context.Context, l *reader) error {
	s := output.ServerStatus{
		Version: output.JSONVersion, URL: l.store.Where, Config: o.Config.Name,
		Store: string(l.store.Kind), Title: l.store.Kind.Title(), Layout: l.store.Layout,
	}
	if redis := l.store.Redis; redis != nil {
		info, err := redis.Server(ctx)
		if err != nil {
			return err
		}
		s.Mode, s.Role, s.Replicas = "standalone", info.Role, info.Replicas
		if info.Cluster {
			s.Mode = "cluster"
		}
		s.UptimeS, s.Eviction, s.Evicted = int64(info.Uptime.Seconds()), info.EvictionPolicy, info.EvictedKeys
		s.Prefix, s.Confirms = o.Prefix, o.Replicas
	}
	var took [5]time.Duration
	for i := range took {
		begun := time.Now()
		version, err := l.store.Ping(ctx)
		if err != nil {
			return err
		}
		took[i], s.Server = time.Since(begun), version
	}
	slices.Sort(took[:])
	s.LatencyMS = float64(took[len(took)/2].Microseconds()) / 1000
	failed := l.print(s, s.Text())
	unusable := l.store.Trouble(ctx)
	if unusable == nil {
		_, unusable = l.Console.Get(ctx, "holdfast:status")
	}
	return errors.Join(failed, unusable)
}
