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
			name := manName(cmd)
			pages[name] = manPage(cmd, name)
		}
	}
	return pages
}

// manName returns the name of the page of a command.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the help of a command in the form of man. It has no date, so two builds have
// the same pages.
func manPage(cmd *cobra.Command, name string) string {
	var text strings.Builder
	seeAlso := "holdfast(1), holdfast-urls(1), holdfast-exit-status(1)"
	if name == "holdfast" {
		fmt.Fprintf(&text, "Usage:\n  holdfast COMMAND [flags]\n\n%s\n", cmd.Long)
		var others []string
		for _, c := range documentedBelow(cmd) {
			fmt.Fprintf(&text, "\n%s: %s", c.CommandPath(), c.Short)
			if c.Name() != "completion" {
				others = append(others, manName(c)+"(1)")
			}
		}
		seeAlso = strings.Join(others, ", ")
	} else {
		cmd.InitDefaultHelpFlag()
		writeHelp(&text, cmd, 80)
	}
	head := fmt.Sprintf(".TH %q 1 \"\" \"holdfast\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), name, cmd.Short)
	return head + manSections(text.String()) + ".SH SEE ALSO\n" + strings.ReplaceAll(seeAlso, "-", `\-`) + "\n"
}

// manSections returns the text of a help as sections of man. The usage, which the help has first,
// is the synopsis, and what follows it is the description.
func manSections(help string) string {
	var page strings.Builder
	begin := func(heading string) {
		if page.Len() > 0 {
			page.WriteString(".fi\n")
		}
		fmt.Fprintf(&page, ".SH %s\n.nf\n", heading)
	}
	synopsis := strings.HasPrefix(help, "Usage:\n")
	if !synopsis {
		begin("DESCRIPTION")
	}
	for line := range strings.Lines(help) {
		switch heading := manHeading(line); {
		case heading != "":
			begin(heading)
			continue
		case synopsis && line == "\n":
			synopsis = false
			begin("DESCRIPTION")
			continue
		}
		line = strings.ReplaceAll(line, `\`, `\e`)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		page.WriteString(strings.ReplaceAll(line, "-", `\-`))
	}
	return strings.TrimRight(page.String(), "\n") + "\n.fi\n"
}

// manHeading returns the heading of man for a heading of the help, or "" for any other line.
func manHeading(line string) string {
	headings := map[string]string{
		"Usage:": "SYNOPSIS", "Examples:": "EXAMPLES", "Flags:": "OPTIONS", "Connection flags:": "CONNECTION OPTIONS", "Details:": "DETAILS",
	}
	if strings.HasPrefix(line, "Exit status (") {
		return "EXIT STATUS"
	}
	return headings[strings.TrimSuffix(line, "\n")]
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
