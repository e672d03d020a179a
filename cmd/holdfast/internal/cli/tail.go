package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

const tailLong = `Tail prints events: grants, releases and waits. It begins with the locks that are held
now.

Each client has one source of events. Clients with package audit or --event-log write
their waits, grants, releases, losses and late renewals to the event log of the store, and
tail prints these. --since prints those of that time first. The events of all other clients
are found by polling, and so are expired leases and queues of all clients.

Tail polls the locks that it knows every --every, and scans for new ones every --scan, with
at most --pace commands per second for each; with more locks than that allows, it polls
them in turn. Holds between two polls are invisible, and the printed time is that of the
poll, or of the grant if the store has it. A hold that ended is "expired" if its lease was
about to end, "forced" if the store still knows the reason, otherwise "released".
"Renewed-late" is a lease that had less than a third left before its renewal.

An entry of the event log is written about a second after its event. On stores with an event
log, tail therefore prints each event two seconds later, in the order of time.

PATTERN and --prefix work as in ls. Without --prefix, forced unlocks of programs with a
key prefix show as "released". Tail ends with a signal, after --for, or after --count
events. While the store does not answer, it says so and goes on.

Exit status: 0; 128+n if signal n ended it; 64, 69, 77 as run.`

// tailOptions is the command line of tail.
type tailOptions struct {
	readOptions
	operate.TailOptions
}

func newTailCommand(env output.Environment) *cobra.Command {
	o := &tailOptions{}
	o.goesOn = true
	cmd := &cobra.Command{
		Use:   "tail [flags] [PATTERN]",
		Short: "Print events of locks",
		Long:  tailLong,
		Example: `  holdfast tail 'deploy/*'
  holdfast tail 'deploy/*' --since 10m
  holdfast tail --json | jq -r 'select(.event == "expired")'`,
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
	f.DurationVar(&o.Since, "since", 0, "begin with events that are at most this old, from the event log of Redis")
	f.DurationVar(&o.Every, "every", time.Second, "how often to poll the known locks")
	f.DurationVar(&o.Scan, "scan", 2*time.Second, "how long to wait between two scans for new locks")
	f.DurationVar(&o.Period, "for", 0, "end after this time; 0 means no limit")
	f.IntVar(&o.Count, "count", 0, "end after this many lines; 0 means no limit")
	f.IntVar(&o.Pace, "pace", 200, "the most commands per second for polls, and the same number for scans; 0 means no limit")
	return cmd
}
