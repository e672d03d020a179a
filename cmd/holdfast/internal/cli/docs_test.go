package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

var update = flag.Bool("update", false, "write docs/cli.md again")

const docsFile = "../../../../docs/cli.md"

// The reference is made from the commands:
//
//	go test ./cmd/holdfast/internal/cli -run TestDocs -update
func TestDocs(t *testing.T) {
	root := newRootCommand(output.Environment{})
	root.InitDefaultCompletionCmd()
	var text strings.Builder
	text.WriteString("# The command line\n\nMade from the commands by `go test ./cmd/holdfast/internal/cli -run TestDocs -update`; do not edit.\n\n" + root.Long + "\n\n")
	for _, cmd := range documentedBelow(root) {
		fmt.Fprintf(&text, "- [`%s`](#%s): %s\n", nameOf(cmd), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	}
	for _, cmd := range documentedBelow(root) {
		describe(&text, cmd)
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	found, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(found) != text.String() {
		t.Errorf("%s is not what the commands say; run: go test ./cmd/holdfast/internal/cli -run TestDocs -update", docsFile)
	}
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

// nameOf returns the words of a command, without that of the program.
func nameOf(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "holdfast ") }

func documented(cmd *cobra.Command) bool {
	return cmd.Name() != "help" && (cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand())
}

// describe writes what help shows of a command.
func describe(text *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(text, "\n## %s\n\n", cmd.CommandPath())
	if cmd.Runnable() {
		fmt.Fprintf(text, "```\n%s\n```\n\n", cmd.UseLine())
	}
	long := cmd.Long
	if cmd.Name() == "completion" { // its own words are not ours, and say it for each shell
		long = cmd.Short + ": bash, fish, powershell or zsh. See `holdfast completion bash --help`."
	}
	paragraphs(text, long)
	if cmd.Example != "" {
		fmt.Fprintf(text, "\nExamples:\n\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	cmd.InitDefaultHelpFlag()
	if !cmd.Runnable() {
		return
	}
	own, connection := flagUsages(cmd, output.UsualWidth)
	if own != "" {
		fmt.Fprintf(text, "\nFlags:\n\n```\n%s```\n", own)
	}
	if connection != "" {
		fmt.Fprintf(text, "\nConnection flags:\n\n```\n%s```\n", connection)
	}
}

// paragraphs writes text as Markdown: what is indented is shown as it is.
func paragraphs(out *strings.Builder, text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			out.WriteString("\n")
		}
		begin := 0
		lines := strings.Split(paragraph, "\n")
		for begin < len(lines) && !strings.HasPrefix(lines[begin], "  ") {
			out.WriteString(strings.NewReplacer("*", `\*`, "<", `\<`, "[", `\[`, "$", `\$`).Replace(lines[begin]) + "\n")
			begin++
		}
		if begin < len(lines) {
			if begin > 0 {
				out.WriteString("\n")
			}
			fmt.Fprintf(out, "```\n%s\n```\n", strings.Join(lines[begin:], "\n"))
		}
	}
}

// Three commands have --event-log, and each records something else.
func TestHelpOfEventLog(t *testing.T) {
	said := map[string]string{}
	for _, name := range []string{"run", "force-unlock", "serve"} {
		cmd, _, err := newRootCommand(output.Environment{}).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		usage := cmd.Flags().Lookup("event-log").Usage
		if other, twice := said[usage]; twice {
			t.Errorf("%s and %s say the same of --event-log: %s", name, other, usage)
		}
		said[usage] = name
	}
}
