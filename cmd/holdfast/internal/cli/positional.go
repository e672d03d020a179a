package cli

import (
	"path"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// noSuchCommand returns an error if there is an argument, because no command has this name.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := "there is no command %q; see %q"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return output.UsageError(message+"; did you mean %q?", args[0], cmd.CommandPath()+" --help", near[0])
	}
	return output.UsageError(message, args[0], cmd.CommandPath()+" --help")
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return output.UsageError("%s takes no arguments; see %q", cmd.CommandPath(), cmd.CommandPath()+" --help")
	}
	return nil
}

// oneName returns a function that accepts exactly one argument, the name of a lock, and stores
// it.
func oneName(name *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return output.UsageError("give the name of one lock; use: %s", cmd.UseLine())
		}
		*name = args[0]
		return nil
	}
}

// onePattern returns a function that accepts at most one argument, a pattern of names, and
// stores it. Without an argument, the stored pattern stays as it is.
func onePattern(pattern *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return output.UsageError("give at most one pattern, and put it in quotes, because otherwise the shell replaces the pattern with names of files; use: %s", cmd.UseLine())
		}
		if len(args) == 1 {
			*pattern = args[0]
		}
		if _, err := path.Match(*pattern, ""); err != nil {
			return output.UsageError("the pattern %q is not complete: it has a [ without a ], or a \\ at the end", *pattern)
		}
		return nil
	}
}
