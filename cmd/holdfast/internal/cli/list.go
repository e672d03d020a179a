package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

const listTimeout = 30 * time.Second

// listOptions is the command line of ls.
type listOptions struct {
	readOptions
	operate.ListOptions
}

func newListCommand(env output.Environment) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:               "ls [flags] [PATTERN]",
		Aliases:           []string{"list"},
		Short:             "List the locks",
		ValidArgsFunction: completeNames(env, &o.Connection, cobra.ShellCompDirectiveNoFileComp),
		Args:              onePattern(&o.Pattern),
		PreRunE:           o.complete,
		RunE:              o.reads(env, func(ctx context.Context, l *reader) error { return l.List(ctx, &o.ListOptions) }),
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *listOptions) addTo(f *pflag.FlagSet) {
	o.readOptions.addTo(f, 0)
	durationVar(f, &o.Timeout, "timeout", "", listTimeout, "end the list after this time; 0 means no limit")
	durationVar(f, &o.Watch, "watch", "", 0, "print the list again and again, with this pause")
	f.BoolVar(&o.Held, "held", false, "only locks with holders")
	f.BoolVar(&o.Waiting, "waiting", false, "only locks with waiters")
	f.BoolVar(&o.Counters, "counters", false, "also list keys that are only a number, such as latches and plain semaphores")
	f.BoolVar(&o.Wide, "wide", false, "each holder on a separate line, with its id")
	f.StringVar(&o.Sort, "sort", "", "the order: name, kind, holder, lease or waiters (default name; with --json no order)")
	f.IntVar(&o.Limit, "limit", 0, "the largest number of locks to print; 0 prints all; without --sort, ls prints those that it finds first, and reads no more")
	f.IntVar(&o.Keys, "keys", 0, "the largest number of keys to read; 0 means no limit")
	f.IntVar(&o.Pace, "pace", 0, "the most commands per second for the store; 0 means no limit")
}

func (o *listOptions) complete(cmd *cobra.Command, _ []string) error {
	o.goesOn = o.Watch > 0
	if o.Sort == "" && !o.json {
		o.Sort = "name"
		o.First = o.Limit > 0
	}
	switch {
	case cmd.Flags().Changed("watch") && (o.Watch < 100*time.Millisecond || o.json):
		return output.UsageError("--watch must be at least 100ms, and cannot be used with --json: for JSON, use tail, which prints each change")
	case o.Sort != "" && !operate.Sorts(o.Sort):
		return output.UsageError("--sort %q: use name, kind, holder, lease or waiters", o.Sort)
	}
	return nil
}
