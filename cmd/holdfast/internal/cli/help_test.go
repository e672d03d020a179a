package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// On a terminal of 80 columns no line of a help is longer, so the terminal breaks no word;
// on a narrow one, no line of prose. No word is lost, and the lines of tables are whole.
func TestHelpFitsTheTerminal(t *testing.T) {
	root := newRootCommand(output.Environment{})
	root.InitDefaultHelpFlag()
	for _, cmd := range documentedBelow(root) {
		if cmd.Name() == "completion" {
			continue
		}
		for _, width := range []int{80, 45} {
			text := helpOf(cmd, width)
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				prose := !strings.HasPrefix(line, " ")
				if utf8.RuneCountInString(line) > width && (prose || width == 80) {
					t.Errorf("%s on %d columns: %d in %q", cmd.Name(), width, utf8.RuneCountInString(line), line)
				}
			}
			all := strings.Join(strings.Fields(text), " ")
			if long := strings.Join(strings.Fields(cmd.Long), " "); !strings.Contains(all, long) && !cmd.Runnable() {
				t.Errorf("%s on %d columns: words are missing in %s", cmd.Name(), width, text)
			}
			for line := range strings.Lines(cmd.Long) {
				if strings.HasPrefix(line, " ") && !strings.Contains(text, strings.TrimSpace(line)) {
					t.Errorf("%s on %d columns: the line %q is broken in %s", cmd.Name(), width, line, text)
				}
			}
		}
	}
}

// Each command and each topic has a file, and each file its command. A file has at most one
// section of examples.
func TestHelpFiles(t *testing.T) {
	root := newRootCommand(output.Environment{})
	want := []string{fileOf(root)}
	for _, cmd := range documentedBelow(root) {
		if cmd.Name() == "completion" {
			continue
		}
		want = append(want, fileOf(cmd))
		if cmd.Long == "" || strings.Contains(cmd.Long+cmd.Example, "Examples:") {
			t.Errorf("%s: the help is empty, or has two sections of examples", cmd.CommandPath())
		}
	}
	files, err := helpFiles.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("got the files %v, want %v", names, want)
	}
}

// helpText returns the file of a command or a topic.
func helpText(t *testing.T, name string) string {
	t.Helper()
	text, err := helpFiles.ReadFile("help/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func helpOf(cmd *cobra.Command, width int) string {
	var out bytes.Buffer
	writeHelp(&out, cmd, width)
	return out.String()
}
