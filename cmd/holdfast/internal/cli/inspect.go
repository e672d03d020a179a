package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// lookLimit is the default time limit of commands that read one lock or one store.
const lookLimit = 10 * time.Second

func newInspectCommand(env output.Environment) *cobra.Command {
	o := &readOptions{}
	cmd := &cobra.Command{
		Use:   "inspect [flags] NAME",
		Short: "Show everything about a lock",
		Long: `Inspect shows all that the store keeps of the lock NAME: its kind, its holder with the
reentry count and the hold time, its waiters, and its keys.

Clients of Holdfast publish their fencing token, hold time and waits after a few
seconds; other clients do not.

Exit status: 0, also if the name is free; 64, 69, 77 as run.`,
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args:              oneName(&o.name),
		RunE: o.reads(env, func(ctx context.Context, l *reader) error {
			detail, err := l.Console.Describe(ctx, o.name)
			if err != nil {
				return err
			}
			return l.print(output.DetailOf(detail), output.DetailText(detail))
		}),
	}
	o.addTo(cmd.Flags(), lookLimit)
	return cmd
}
