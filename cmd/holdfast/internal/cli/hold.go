package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

// holdOptions is the command line of hold.
type holdOptions struct {
	lockOptions
	supervise.Hold
}

func newHoldCommand(env output.Environment) *cobra.Command {
	o := &holdOptions{}
	cmd := &cobra.Command{
		Use:               "hold [flags] NAME",
		SuggestFor:        []string{"acquire", "keep"},
		Short:             "Hold a lock by hand",
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
	durationVar(f, &o.Period, "for", "", 0, "release the lock after this time; 0 means no limit")
	f.BoolVar(&o.IgnoreInput, "ignore-stdin", false, "keep the lock when standard input is closed")
	f.BoolVar(&o.JSON, "json", false, "print JSON: an object when hold has the lock, and an object at the end")
	return cmd
}
