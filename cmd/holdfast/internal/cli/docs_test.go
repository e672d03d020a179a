package cli

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	cmds, shared := documentedBelow(root), groupsOf(t, root)
	var text strings.Builder
	text.WriteString("# The command line\n\nMade from the commands by `go test ./cmd/holdfast/internal/cli -run TestDocs -update`; do not edit.\n\n")
	paragraphs(&text, root.Long)
	text.WriteString("\n")
	for _, cmd := range cmds {
		fmt.Fprintf(&text, "- [`%s`](#%s): %s\n", nameOf(cmd), anchorOf(cmd.CommandPath()), cmd.Short)
	}
	text.WriteString("\n## Shared flags\n\nEach command names those of these flags that it has. All commands have `--help`.\n")
	for _, g := range shared {
		fmt.Fprintf(&text, "\n### %s\n\n```\n%s```\n", g.title, g.flags.FlagUsagesWrapped(output.UsualWidth))
	}
	for _, cmd := range cmds {
		describe(&text, cmd, shared)
	}
	text.WriteString("\n## Next\n\n- For the file `holdfast.yaml`: [configuration](configuration.md).\n- For cron, systemd, containers and Kubernetes: [running](running.md).\n- For a lock that is stuck, or was lost: [operating](operating.md#why-a-lock-was-lost).\n")
	if *update {
		if err := os.WriteFile(docsFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := os.ReadFile(docsFile); err != nil || string(found) != text.String() {
		t.Errorf("%s is not what the commands say (%v); run: go test ./cmd/holdfast/internal/cli -run TestDocs -update", docsFile, err)
	}
}

// nameOf returns the words of a command, without that of the program.
func nameOf(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "holdfast ") }

// anchorOf returns the anchor of a heading.
func anchorOf(heading string) string { return strings.ToLower(strings.ReplaceAll(heading, " ", "-")) }

// groups are sets of flags that the reference describes once, for all commands with them.
type groups []struct {
	title string
	flags *pflag.FlagSet
}

// of returns the number of the group that has the flag with the same help, or -1.
func (g groups) of(f *pflag.Flag) int {
	for i := range g {
		if same := g[i].flags.Lookup(f.Name); same != nil && same.Shorthand+same.DefValue+same.Usage == f.Shorthand+f.DefValue+f.Usage {
			return i
		}
	}
	return -1
}

// groupsOf returns the groups: each has the flags that two commands have alike.
func groupsOf(t *testing.T, root *cobra.Command) (all groups) {
	t.Helper()
	find := func(name string) *cobra.Command {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for _, of := range [][]string{{"Connection flags", "ls", "doctor"}, {"Output flags", "inspect", "status"}, {"Lock flags", "run", "hold"}, {"Command flags", "run", "elect"}} {
		both := groups{{flags: find(of[2]).LocalFlags()}}
		flags, names := flagsOf(find(of[1]), func(f *pflag.Flag) bool { return both.of(f) == 0 && all.of(f) < 0 })
		if len(names) == 0 {
			t.Fatalf("%s: %s and %s have none alike", of[0], of[1], of[2])
		}
		all = append(all, groups{{of[0], flags}}...)
	}
	return all
}

// flagsOf returns the flags of a command for which keep returns true, and their names. Hidden
// flags are not among them.
func flagsOf(cmd *cobra.Command, keep func(*pflag.Flag) bool) (set *pflag.FlagSet, names []string) {
	set = &pflag.FlagSet{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden && keep(f) {
			set.AddFlag(f)
			names = append(names, "`--"+f.Name+"`")
		}
	})
	return set, names
}

// describe writes what help shows of a command, and the names of its shared flags.
func describe(text *strings.Builder, cmd *cobra.Command, shared groups) {
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
	if own, names := flagsOf(cmd, func(f *pflag.Flag) bool { return shared.of(f) < 0 }); names != nil {
		fmt.Fprintf(text, "\nFlags:\n\n```\n%s```\n", own.FlagUsagesWrapped(output.UsualWidth))
	}
	for i, g := range shared {
		if _, names := flagsOf(cmd, func(f *pflag.Flag) bool { return shared.of(f) == i }); names != nil {
			fmt.Fprintf(text, "\n[%s](#%s): %s\n", g.title, anchorOf(g.title), strings.Join(names, " "))
		}
	}
}

// mentions name a topic of help, or a command.
var mentions = regexp.MustCompile(`"holdfast (?:help ([a-z-]+)|([a-z-]+) --help)"`)

// paragraphs writes text as Markdown: what is indented is shown as it is.
func paragraphs(out *strings.Builder, text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			out.WriteString("\n")
		}
		begin := 0
		lines := strings.Split(paragraph, "\n")
		for begin < len(lines) && !strings.HasPrefix(lines[begin], "  ") {
			line := strings.NewReplacer("*", `\*`, "<", `\<`, "[", `\[`, "$", `\$`).Replace(lines[begin])
			out.WriteString(mentions.ReplaceAllString(line, "[$1$2](#holdfast-$1$2)") + "\n")
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
