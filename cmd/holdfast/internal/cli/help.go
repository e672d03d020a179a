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

// section is a part of the help of the program: commands or topics, in the order in which a new
// user needs them.
type section struct {
	title string
	cmds  []*cobra.Command
}

// setHelp sets the help of root and of the commands below it.
func setHelp(root *cobra.Command, sections []section) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		w := cmd.OutOrStdout()
		switch {
		case cmd == root:
			writeRootHelp(w, root, sections, output.WidthOf(w))
		case cmd.HasAvailableSubCommands():
			usual(cmd, args)
		default:
			writeHelp(w, cmd, output.WidthOf(w))
		}
	})
}

// writeRootHelp writes the help of the program, with a line for each command and each topic.
func writeRootHelp(w io.Writer, root *cobra.Command, sections []section, width int) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  holdfast COMMAND [flags]\n\nExample:\n%s\n", output.Wrap(root.Long, width), root.Example)
	for _, s := range sections {
		fmt.Fprintf(w, "\n%s:\n", s.title)
		writeLines(w, s.cmds)
	}
	fmt.Fprintf(w, "\n%s\n", output.Wrap(`"holdfast COMMAND --help" shows the help of a command, and "holdfast completion" has scripts for shells. The exit statuses: holdfast help exit-status`, width))
}

// writeLines writes a line for each of the commands and topics. In place of a command with
// commands below it, it writes lines for those.
func writeLines(w io.Writer, cmds []*cobra.Command) {
	var lines []*cobra.Command
	for _, cmd := range cmds {
		if cmd.HasAvailableSubCommands() {
			lines = append(lines, cmd.Commands()...)
		} else {
			lines = append(lines, cmd)
		}
	}
	widest := 0
	for _, cmd := range lines {
		widest = max(widest, len(typed(cmd)))
	}
	for _, cmd := range lines {
		fmt.Fprintf(w, "  %-*s  %s\n", widest, typed(cmd), cmd.Short)
	}
}

// typed returns what a user types for a command, after the name of the program, or for a topic.
func typed(cmd *cobra.Command) string {
	words := strings.TrimPrefix(cmd.CommandPath(), "holdfast ")
	if !cmd.Runnable() {
		return "holdfast help " + words
	}
	return words
}

// writeHelp writes the help of a command, or of a topic. The help of a command begins with what
// most readers want: its usage, what it does, examples, and its flags.
func writeHelp(w io.Writer, cmd *cobra.Command, width int) {
	long := output.Wrap(cmd.Long, width)
	if !cmd.Runnable() { // a topic
		fmt.Fprintln(w, long)
		return
	}
	first, rest, _ := strings.Cut(long, "\n\n")
	own, connection := flagUsages(cmd, width)
	fmt.Fprintf(w, "Usage:\n  %s\n\n%s\n", cmd.UseLine(), first)
	for _, part := range []struct{ format, text string }{
		{"\nExamples:\n%s\n", cmd.Example},
		{"\nFlags:\n%s", own},
		{"\nConnection flags:\n%s", connection},
		{"\nDetails:\n\n%s\n", rest},
	} {
		if part.text != "" {
			fmt.Fprintf(w, part.format, part.text)
		}
	}
}

// refuseOtherTopics makes the command "help" return an error for a command or a topic that does
// not exist. By default, cobra prints the help of the program in that case, with status 0.
func refuseOtherTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // no error: InitDefaultHelpCmd has just added this command
	usual := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		switch {
		case err != nil:
			return output.UsageError("%w; see %q", err, "holdfast --help")
		case found.HasSubCommands() && len(rest) > 0:
			return noSuchCommand(found, rest)
		}
		usual(cmd, args)
		return nil
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
