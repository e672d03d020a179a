package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

const holdLong = `Hold takes the lock NAME, prints a line on standard output, and keeps the lock until
Ctrl-C or another signal, until --for is over, or, if standard input is a pipe, until the
pipe is closed. Then it releases the lock. It reads nothing from a terminal, so it may
run in the background.

Hold is for maintenance by hand, and for programs without a library: start it, wait for
the line on its standard output, work, and close its standard input. If it ends earlier,
the lock is lost.

Exit status: 0 if the lock was held to the end; 79 if it was lost; 75 if another client
holds the lock and the wait is over; 128+n if signal n ended the wait; else as run.`

// holdOptions is the command line of hold.
type holdOptions struct {
	lockOptions
	supervise.Hold
}

func newHoldCommand(env output.Environment) *cobra.Command {
	o := &holdOptions{}
	cmd := &cobra.Command{
		Use:   "hold [flags] NAME",
		Short: "Hold a lock by hand",
		Long:  holdLong,
		Example: `  # nobody deploys for the next two hours
  holdfast hold deploy/prod --for 2h --reason "database maintenance"

  # in a script of bash
  coproc holdfast hold stock -w 1m; read -r line <&"${COPROC[0]}" || exit
  ./work.sh; exec {COPROC[1]}>&-`,
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args:              oneName(&o.Name),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Flags(), env) },
		RunE: o.takes(env, func(ctx context.Context, p supervise.Program) error {
			return supervise.Keep(ctx, p, &o.Lock, o.Hold)
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.addTo(f)
	o.addKindTo(f)
	f.DurationVar(&o.Period, "for", 0, "release the lock after this time; 0 means no limit")
	f.BoolVar(&o.IgnoreInput, "ignore-stdin", false, "go on when standard input is closed")
	f.BoolVar(&o.JSON, "json", false, "print JSON: an object when the lock is held, and one at the end")
	return cmd
}
