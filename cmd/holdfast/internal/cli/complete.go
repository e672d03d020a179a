package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

const (
	completeLimit = 2 * time.Second
	completeKeys  = 10000
	completeMost  = 200
)

// completeNames returns the function that completes the first argument of a command with the
// names of the locks in a store. The function gives up after completeLimit, without a message.
// The parameter `rest` is the directive by which the shell completes the arguments after the
// name.
func completeNames(env output.Environment, c *store.Connection, rest cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, rest
		}
		env.Stderr = io.Discard // a message would appear inside the line that the user is typing
		ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
		defer cancel()
		c.Completing = true
		// Configure sets fields of c, so it must be called before o gets a copy of c. Its error
		// is ignored here, because o.read calls Configure, too, and returns the same error.
		_ = c.Configure(cmd.Flags(), env, output.NewReporter(env, false))
		o := &readOptions{Connection: *c}
		_ = o.read(ctx, cmd.Flags(), env, func(ctx context.Context, l *reader) error {
			for r, err := range l.Console.List(ctx, admin.Filter{NamePrefix: begin, Keys: completeKeys}) {
				if err != nil || len(names) == completeMost {
					break
				}
				if r.Name == output.Clean(r.Name) {
					names = append(names, r.Name)
				}
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeValues makes shells complete the values of flags that accept only a few words, for
// all commands directly below `root`.
func completeValues(root *cobra.Command) {
	values := map[string][]cobra.Completion{
		"fail-on": {"note", "warning", "danger", "never"},
		"sort":    {"name", "kind", "holder", "lease", "waiters"},
		"layout":  {"redisson", "plain", "timestamp"},
		"signal":  {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"},

		"step-down-on": {"USR1", "USR2"},
	}
	for _, cmd := range root.Commands() {
		for name, list := range values {
			if cmd.Flags().Lookup(name) != nil {
				complete := cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder)
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // it fails only for an unknown flag
			}
		}
	}
}

// refuseOtherShells makes the command "completion" return an error for an unknown shell. By
// default, cobra prints the help of the command in that case, with status 0.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"}) // no error: InitDefaultCompletionCmd has just added this command
	completion.Args, completion.RunE = noSuchCommand, root.RunE
}
