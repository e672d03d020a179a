package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// lookLimit is the default of --timeout for commands that need only a few calls to the store.
const lookLimit = 10 * time.Second

func newInspectCommand(env output.Environment) *cobra.Command {
	o := &readOptions{}
	cmd := &cobra.Command{
		Use:               "inspect [flags] NAME",
		SuggestFor:        []string{"show", "get", "info"},
		Short:             "Show everything about a lock",
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
