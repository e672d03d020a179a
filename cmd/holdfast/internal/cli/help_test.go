package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
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

// The help of the program has what a new user needs first at the beginning of each section, and
// shows how a topic is read.
func TestHelpOfTheProgram(t *testing.T) {
	got := call(t, bare(), "--help")
	got.want(t, 0)
	rest := got.stdout
	for _, next := range []string{
		"\nExample:\n  holdfast run ", "\n  run ", "\n  hold ", "\n  elect ", "\n  ls ", "\n  inspect ", "\n  force-unlock ", "\n  doctor ",
		"\n  demo ", "\n  config check ", "\n  holdfast help urls ", "\n  holdfast help exit-status ", "The exit statuses: holdfast help exit-status",
	} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Fatalf("got %s, want %q after the earlier ones", got.stdout, next)
		}
		rest = after
	}
	for _, cmd := range newRootCommand(output.Environment{}).Commands() {
		if documented(cmd) && !strings.Contains(got.stdout, cmd.Name()) {
			t.Errorf("the help of the program does not name %s", cmd.Name())
		}
	}
}

// A reader of a terminal finds the flags before the long text.
func TestHelpOfACommandBeginsWithItsUse(t *testing.T) {
	rest := call(t, bare(), "run", "--help").stdout
	for _, next := range []string{"Usage:\n", "\n\nRun waits for the lock", "\nExamples:\n", "\nFlags:\n", "\nConnection flags:\n", "\nDetails:\n", "Exit status"} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Fatalf("got no %q after the earlier parts, in %s", next, rest)
		}
		rest = after
	}
}

func TestHelpOfWhatDoesNotExist(t *testing.T) {
	call(t, bare(), "help", "nosuch").want(t, output.ExitUsage, `there is no command "nosuch"`)
	call(t, bare(), "help", "lock").want(t, output.ExitUsage, `did you mean "run"?`)
	call(t, bare(), "help", "config", "chek").want(t, output.ExitUsage, `did you mean "check"?`)
	for _, args := range [][]string{{"help"}, {"help", "urls"}, {"help", "config", "check"}, {"help", "config"}, {"help", "help"}} {
		if got := call(t, bare(), args...); got.code != 0 || got.stdout == "" {
			t.Errorf("%v: got %+v, want a help", args, got)
		}
	}
}

// The help of run has the times after which a command is stopped if the store does not answer: the
// lease without its margin, less the time to end, and up to a third of the lease since the last renewal.
func TestHelpOfRunHasTheTimesOfAnOutage(t *testing.T) {
	for _, ttl := range []time.Duration{defaultTTL, 2 * time.Minute} {
		lock := supervise.Lock{TTL: ttl}
		most := ttl - lock.MarginOf(ttl) - min(defaultKillAfter, ttl/3)
		want := fmt.Sprintf("%.0f to %.0f s", (most - ttl/3).Seconds(), most.Seconds())
		if !strings.Contains(strings.Join(strings.Fields(helpText(t, "run")), " "), want) {
			t.Errorf("the help of run does not say %q for --ttl %s", want, ttl)
		}
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
