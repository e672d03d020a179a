package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

func newElectCommand(env output.Environment) *cobra.Command {
	o := &runOptions{}
	o.ConflictCode = output.ExitBusy
	cmd := &cobra.Command{
		Use:               "elect [flags] NAME [flags] [--] CMD [ARG...]",
		SuggestFor:        []string{"lead", "leader"},
		Short:             "Run a command as the leader, and campaign again",
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveDefault), // CMD is the name of a file
		Args:              o.parse,
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Flags(), env) },
		RunE: o.takes(env, func(ctx context.Context, p supervise.Program) error {
			return supervise.Elect(ctx, p, &o.Lock, &o.Command, o.campaign)
		}),
	}
	f := cmd.Flags() // only those flags of "holdfast run" that make sense for a leader
	o.lockOptions.addTo(f)
	o.addCommandTo(f)
	f.IntVar(&o.LostCode, "lost-exit-code", output.ExitLost, "with --once: exit status if leadership was lost, or the time of --max-hold is over")
	f.BoolVar(&o.campaign.Once, "once", false, "end after the first term")
	f.StringVar(&o.stepDownOn, "step-down-on", "", "the signal, USR1 or USR2, that ends the term: elect stops the command, releases the lock, and campaigns again after --backoff; default none")
	durationVar(f, &o.campaign.Backoff, "backoff", "", time.Second, "the pause after the first term; each term shorter than a minute doubles the pause")
	return cmd
}
