package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// tailOptions is the command line of tail.
type tailOptions struct {
	readOptions
	operate.TailOptions
}

func newTailCommand(env output.Environment) *cobra.Command {
	o := &tailOptions{}
	o.goesOn = true
	cmd := &cobra.Command{
		Use:               "tail [flags] [PATTERN]",
		SuggestFor:        []string{"watch", "events", "log"},
		Short:             "Print events of locks",
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args:              onePattern(&o.Pattern),
		PreRunE: func(*cobra.Command, []string) error {
			if o.Every < 100*time.Millisecond {
				return output.UsageError("--every %s is too short; use at least 100ms", o.Every)
			}
			return nil
		},
		RunE: o.reads(env, func(ctx context.Context, l *reader) error { return l.Tail(ctx, &o.TailOptions) }),
	}
	f := cmd.Flags()
	o.addTo(f, 0)
	durationVar(f, &o.Since, "since", "", 0, "first print the events in the event log of Redis that are at most this old")
	durationVar(f, &o.Every, "every", "", time.Second, "the time between two polls of the known locks")
	durationVar(f, &o.Scan, "scan", "", 2*time.Second, "the pause between two scans for new locks")
	durationVar(f, &o.Period, "for", "", 0, "end after this time; 0 means no limit")
	f.IntVar(&o.Count, "count", 0, "end after this many lines; 0 means no limit")
	f.IntVar(&o.Pace, "pace", 200, "the most commands per second for polls, and the same number for scans; 0 means no limit")
	return cmd
}
