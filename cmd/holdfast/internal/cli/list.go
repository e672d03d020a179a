package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/operate"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

const listLong = `Ls lists locked names of all programs: Redisson's locks of all kinds too, held by Java or
by Go. It scans the keys with SCAN in small steps, and reads those that can be locks. It
changes nothing.

PATTERN is a prefix of names, or a pattern with *, ? and [...]. Ls reads only names that
begin with the part before the first of these.

Without --prefix, locks of programs that use a key prefix have that prefix in their
names; ls guesses the prefix from the first three separators (: / .) to find their
holders, and shows unknown holders as Redisson clients.

In a store with much other data, --keys limits how many keys are read, --pace how many
commands per second the store runs, and --timeout the time. If one of them ends the list
early, a message says so and the exit status is 1: the printed locks are correct, but
others may be missing.

Latches and plain semaphores are bare numbers in the store: --counters lists every bare
number.

Exit status: 0 if the list is complete, locks or none; 1 if not; 64, 69, 77 as run.`

const listTimeout = 30 * time.Second

// listOptions is the command line of ls.
type listOptions struct {
	readOptions
	operate.ListOptions
}

func newListCommand(env output.Environment) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:     "ls [flags] [PATTERN]",
		Aliases: []string{"list"},
		Short:   "List the locks",
		Long:    listLong,
		Example: `  holdfast ls
  holdfast ls 'deploy/*' --waiting
  holdfast ls --sort lease --limit 20 --watch 2s
  holdfast ls --json |
    jq -r 'select(.remaining_ms >= 0 and .remaining_ms < 5000) | .name'`,
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
	f.DurationVar(&o.Timeout, "timeout", listTimeout, "end the list after this time; 0 means no limit")
	f.DurationVar(&o.Watch, "watch", 0, "print the list again after this pause")
	f.BoolVar(&o.Held, "held", false, "only locks with holders")
	f.BoolVar(&o.Waiting, "waiting", false, "only locks with waiters")
	f.BoolVar(&o.Counters, "counters", false, "also bare numbers, which may be latches and plain semaphores")
	f.BoolVar(&o.Wide, "wide", false, "each holder on a separate line, with its id")
	f.StringVar(&o.Sort, "sort", "", "by name, kind, holder, lease or waiters; with --json no order is the default")
	f.IntVar(&o.Limit, "limit", 0, "the largest number of locks to print; 0 prints all")
	f.IntVar(&o.Keys, "keys", 0, "the most keys to read; 0 means no limit")
	f.IntVar(&o.Pace, "pace", 0, "commands per second for the store at most; 0 is as fast as it answers")
}

func (o *listOptions) complete(cmd *cobra.Command, _ []string) error {
	o.goesOn = o.Watch > 0
	if o.Sort == "" && !o.json {
		o.Sort = "name"
	}
	switch {
	case cmd.Flags().Changed("watch") && (o.Watch < 100*time.Millisecond || o.json):
		return output.UsageError("--watch is at least 100ms, and not for --json: use tail, which prints what changes")
	case o.Sort != "" && !operate.Sorts(o.Sort):
		return output.UsageError("--sort %q: use name, kind, holder, lease or waiters", o.Sort)
	}
	return nil
}
