package cli

import (
	"bytes"
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

func helpOf(cmd *cobra.Command, width int) string {
	var out bytes.Buffer
	writeHelp(&out, cmd, width)
	return out.String()
}
