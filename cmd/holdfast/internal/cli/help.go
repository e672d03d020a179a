package cli

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// helpFiles has a file for each command and each topic. If a file has examples, they are its
// last section.
//
//go:embed help/*.txt
var helpFiles embed.FS

// addTexts sets the descriptions and the examples of cmd and of the commands below it. It does
// not change a command without a file: a hidden command, or a command that cobra adds.
func addTexts(cmd *cobra.Command) {
	if text, err := helpFiles.ReadFile("help/" + fileOf(cmd)); err == nil {
		long, examples, _ := strings.Cut(string(text), "\nExamples:\n")
		cmd.Long, cmd.Example = strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	}
	for _, below := range cmd.Commands() {
		addTexts(below)
	}
}

// fileOf returns the name of the file for cmd, such as config-check.txt.
func fileOf(cmd *cobra.Command) string {
	return strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "holdfast "), " ", "-") + ".txt"
}

// addGroup adds commands to `root`. The help of `root` lists them under the heading `title`.
func addGroup(root *cobra.Command, title string, cmds ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range cmds {
		cmd.GroupID = title
	}
	root.AddCommand(cmds...)
}

// setHelp sets the help of the commands below root. The help of a command begins with what most
// readers want: what the command does, its usage, examples, and its own flags.
func setHelp(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root || cmd.HasAvailableSubCommands() {
			usual(cmd, args)
			return
		}
		writeHelp(cmd.OutOrStdout(), cmd, output.WidthOf(cmd.OutOrStdout()))
	})
}

func writeHelp(w io.Writer, cmd *cobra.Command, width int) {
	long := output.Wrap(cmd.Long, width)
	if !cmd.Runnable() { // a topic
		fmt.Fprintln(w, long)
		return
	}
	first, rest, _ := strings.Cut(long, "\n\n")
	own, connection := flagUsages(cmd, width)
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", first, cmd.UseLine())
	for _, section := range []struct{ format, text string }{
		{"\nExamples:\n%s\n", cmd.Example},
		{"\n%s\n", rest},
		{"\nFlags:\n%s", own},
		{"\nConnection flags:\n%s", connection},
	} {
		if section.text != "" {
			fmt.Fprintf(w, section.format, section.text)
		}
	}
}

// flagUsages returns two texts with the help for the flags of a command: `own` for the flags of
// the command itself, and `connection` for the flags of the connection to the store. The lines
// have at most `width` characters.
func flagUsages(cmd *cobra.Command, width int) (own, connection string) {
	mine, others := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	mine.SortFlags, others.SortFlags = false, false
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if store.IsFlag(f.Name) {
			others.AddFlag(f)
		} else {
			mine.AddFlag(f)
		}
	})
	return mine.FlagUsagesWrapped(width), others.FlagUsagesWrapped(width)
}
