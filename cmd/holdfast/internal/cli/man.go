package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

func newManCommand(env output.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the man pages into a folder",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return output.UsageError("give the folder for the man pages; use: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeManPages(env.Stdout, cmd.Root(), args[0])
		},
	}
}

// writeManPages writes the man pages of root and its commands into the folder dir, which it makes
// if it does not exist, and says how many there are.
func writeManPages(w io.Writer, root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := manPages(root)
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(page), 0o644); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d man pages are in %s\n", len(pages), dir)
	return err
}

// manPages returns the man page of root and of each of its commands, by the name of the page.
func manPages(root *cobra.Command) map[string]string {
	pages := map[string]string{"holdfast": manPage(root, "holdfast")}
	for _, cmd := range documentedBelow(root) {
		if cmd.Name() != "completion" {
			name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
			pages[name] = manPage(cmd, name)
		}
	}
	return pages
}

// manPage is the help of a command in the form of man. It has no date, so two builds have
// the same pages.
func manPage(cmd *cobra.Command, name string) string {
	var page, text strings.Builder
	fmt.Fprintf(&page, ".TH %q 1 \"\" \"holdfast\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n", strings.ToUpper(name), name, cmd.Short)
	if name == "holdfast" {
		fmt.Fprintln(&text, cmd.Long)
		for _, c := range documentedBelow(cmd) {
			fmt.Fprintf(&text, "\n%s: %s", c.CommandPath(), c.Short)
		}
	} else {
		cmd.InitDefaultHelpFlag()
		writeHelp(&text, cmd, 80)
	}
	for line := range strings.Lines(strings.ReplaceAll(text.String(), `\`, `\e`)) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		page.WriteString(strings.ReplaceAll(line, "-", `\-`))
	}
	return strings.TrimRight(page.String(), "\n") + "\n.fi\n"
}

// documentedBelow returns the commands below root that have a page, each before those below
// it. completion has the pages of cobra.
func documentedBelow(root *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range root.Commands() {
		if !documented(cmd) {
			continue
		}
		all = append(all, cmd)
		if cmd.Name() != "completion" {
			all = append(all, documentedBelow(cmd)...)
		}
	}
	return all
}

// documented reports whether a command or a topic of the help has a page.
func documented(cmd *cobra.Command) bool {
	return cmd.Name() != "help" && (cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand())
}
