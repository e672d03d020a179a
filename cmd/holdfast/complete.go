package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	completeLimit = 2 * time.Second
	completeKeys  = 10000
	completeMost  = 200
)

// completeNames tells shells which locks there are. A store that does not answer
// soon costs only the help.
func completeNames(env environment, o *lookOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		env.stderr = io.Discard // the person is typing
		ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
		defer cancel()
		var names []cobra.Completion
		_ = o.look(ctx, cmd.Flags(), env, func(ctx context.Context, l *looking) error {
			for r, err := range l.locker.List(ctx, driver.ListOptions{Prefix: begin, Keys: completeKeys}) {
				if err != nil || len(names) == completeMost {
					break
				}
				if r.Name == clean(r.Name) {
					names = append(names, r.Name)
				}
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
