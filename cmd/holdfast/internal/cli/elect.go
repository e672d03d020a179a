package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

const electLong = `Elect is a candidate for the lock NAME, and runs CMD while it is the leader. When CMD
ends, or leadership is lost, it releases the lock and campaigns again, until a signal
ends it. After each term it waits for --backoff. After several terms shorter than a minute
it waits longer each time, up to a minute. It also waits for a store that cannot be reached
at the start.

When leadership is lost, CMD gets --signal and then SIGKILL, before another client can
become the leader. "holdfast run --help" describes CMD, its environment and signals. A
signal that ends CMD ends the campaign too.

Windows has no elect; see "holdfast run --help".

With --once there is one term, and the exit status is that of run.

Exit status without --once: that of CMD if a signal ended the leader; 128+n if signal n
ended a candidate; 69, 77, 125, 126 and 127 as run.`

func newElectCommand(env output.Environment) *cobra.Command {
	o := &runOptions{}
	o.ConflictCode = output.ExitBusy
	cmd := &cobra.Command{
		Use:   "elect [flags] NAME [flags] [--] CMD [ARG...]",
		Short: "Run a command as the leader, and campaign again",
		Long:  electLong,
		Example: `  # on each machine: one of them works, another takes over when it is gone
  holdfast elect billing -- ./billing-daemon

  # leadership for a day at most
  holdfast elect report --max-hold 24h -- ./report-server`,
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveDefault), // CMD is a file
		Args:              o.parse,
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Flags(), env) },
		RunE: o.takes(env, func(ctx context.Context, p supervise.Program) error {
			return supervise.Elect(ctx, p, &o.Lock, &o.Command, o.campaign)
		}),
	}
	f := cmd.Flags() // those of run, without those that make no sense for a leader
	o.lockOptions.addTo(f)
	o.addCommandTo(f)
	f.IntVar(&o.LostCode, "lost-exit-code", output.ExitLost, "with --once: status if leadership was lost, or reached --max-hold")
	f.BoolVar(&o.campaign.Once, "once", false, "end after the first term")
	f.DurationVar(&o.campaign.Backoff, "backoff", time.Second, "the first pause after a term; it doubles after each short term")
	return cmd
}
