package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Each command has a page. make dist has this test write them into HOLDFAST_MAN.
func TestManPages(t *testing.T) {
	root := newRootCommand(output.Environment{})
	pages := map[string]string{"holdfast": manPage(root, "holdfast")}
	for _, cmd := range documentedBelow(root) {
		if cmd.Name() != "completion" {
			name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
			pages[name] = manPage(cmd, name)
		}
	}
	for _, name := range []string{"holdfast", "holdfast-run", "holdfast-config-check", "holdfast-urls", "holdfast-version"} {
		if !strings.Contains(pages[name], "\n.SH DESCRIPTION\n") {
			t.Errorf("%s has no page", name)
		}
	}
	for name, page := range pages {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".SH ") && !strings.HasPrefix(line, ".TH ") && line != ".nf\n" && line != ".fi\n" {
				t.Errorf("%s: a line of text is a request to man: %q", name, line)
			}
		}
		if dir := os.Getenv("HOLDFAST_MAN"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
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
