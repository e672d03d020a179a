package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

func newRunCommand(env output.Environment) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:               "run [flags] NAME [flags] [--] CMD [ARG...]",
		SuggestFor:        []string{"lock", "exec", "with"},
		Short:             "Run a command while holding a lock",
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveDefault), // CMD is the name of a file
		Args:              o.parse,
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Flags(), env) },
		RunE: o.takes(env, func(ctx context.Context, p supervise.Program) error {
			return supervise.Run(ctx, p, &o.Lock, &o.Command)
		}),
	}
	o.addTo(cmd.Flags())
	return cmd
}
