//go:build unix

package clitest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// root is the folder of the repository.
const root = "../../.."

// TestPages types every line of the README and the quickstart, once with the oldest Go
// that the library promises and once with the one that runs the test, and wants each to
// succeed.
func TestPages(t *testing.T) {
	await.NotShort(t, "programs of the pages work for ten seconds")
	origin := publish(t)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	oldest := "go" + regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(mod))[1]
	for _, toolchain := range []string{oldest, "local"} {
		t.Run(toolchain, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, toolchain, origin)
			m.old = toolchain == oldest
			m.follow("README.md", "")
			if m.old {
				m.empty() // for a reader who begins with the quickstart
				m.follow("docs/quickstart.md", "")
			} else {
				m.waitAMinute()
				m.follow("docs/quickstart.md", built)
			}
		})
	}
}

// publish returns a Git repository with the files of this one, also those that are not
// committed.
func publish(t *testing.T) string {
	t.Helper()
	origin := t.TempDir()
	git := []string{"--git-dir=" + filepath.Join(origin, ".git"), "--work-tree=" + root, "-c", "user.name=test", "-c", "user.email=test@localhost"}
	for _, args := range [][]string{{"init", "-q", origin}, append(git, "add", "-A", root), append(git, "commit", "-q", "-m", "now")} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull) // hooks, signatures
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	return origin
}

// machine is a machine as a reader of the pages has it, with one version of Go.
type machine struct {
	*testing.T
	home string // where pages begin
	env  []string
	old  bool   // whether its Go is too old for the command line
	addr string // of the server
}

func newMachine(t *testing.T, toolchain, origin string) *machine {
	t.Helper()
	m := &machine{T: t, home: filepath.Join(t.TempDir(), "home"), addr: redistest.Start(t).Addr()}
	config := filepath.Join(t.TempDir(), "gitconfig")
	text := "[url \"" + origin + "\"]\n\tinsteadOf = https://github.com/holdfast-go/holdfast\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	goRoot := goEnv(t, "GOROOT", "GOTOOLCHAIN="+toolchain)
	m.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "HOLDFAST_") || strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "GORACE=")
	}),
		"PATH="+filepath.Join(goRoot, "bin")+string(filepath.ListSeparator)+pathWithoutHoldfast(),
		"GOTOOLCHAIN=local", "GOWORK=", "GOFLAGS=", "GOBIN=",
		"GOPATH="+t.TempDir(), "GOMODCACHE="+goEnv(t, "GOMODCACHE"),
		"GIT_CONFIG_GLOBAL="+config,
	)
	m.empty()
	return m
}

// pathWithoutHoldfast returns PATH without the folders that have the command already.
func pathWithoutHoldfast() string {
	folders := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, "holdfast"))
		return err == nil
	})
	return strings.Join(folders, string(filepath.ListSeparator))
}

// goEnv returns a setting of Go. A toolchain may have to be fetched for it: what a module
// proxy refuses once it may give later.
func goEnv(t *testing.T, name string, env ...string) string {
	t.Helper()
	var out []byte
	var err error
	for range 3 {
		cmd := exec.CommandContext(t.Context(), "go", "env", name)
		cmd.Env = append(os.Environ(), env...)
		if out, err = cmd.Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	t.Fatalf("go env %s %s: %v\n%s", name, env, err, out)
	return ""
}

// tooNew is what lines print where Go is too old for the command line.
var tooNew = map[string]string{
	"make demo":   `needs Go 1\.26`,
	"go install ": `requires go >= 1\.26`,
	"holdfast ":   `not found`, // as it was not installed
}

// printed is what lines print.
var printed = map[string]string{
	"make demo":           `(?m)^Everything happened as claimed\.$`,
	"go run .":            `^I have the lock, token \d+\ndone, error: <nil>\n$`,
	"go test .":           `^ok `,
	"holdfast run deploy": `^deploying, token \d{16}\n$`,
	"holdfast ls":         `(?m)^stock:42 `,
}

// Blocks whose programs are watched begin with these.
const twice, killed = "./shop &\n./shop\n", "./shop &\nPID=$!\n"

// built is the line of the quickstart for readers who have done the steps of the README.
const built = "go build -o shop .\n"

// The quickstart has readers who come from the README change how long the program waits.
const short, minute = "holdfast.Wait(2*time.Second)", "holdfast.Wait(time.Minute)"

// waitAMinute makes that change in the program of the README.
func (m *machine) waitAMinute() {
	m.Helper()
	file := filepath.Join(m.home, "shop", "main.go")
	text, err := os.ReadFile(file)
	if err != nil {
		m.Fatal(err)
	}
	changed := strings.Replace(string(text), short, minute, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		m.Fatal(err)
	}
}

// empty empties the folder where pages begin.
func (m *machine) empty() {
	m.Helper()
	if err := os.RemoveAll(m.home); err != nil {
		m.Fatal(err)
	}
	if err := os.Mkdir(m.home, 0o700); err != nil {
		m.Fatal(err)
	}
}

// follow types a page: all of it, or what begins with the line from, in the module that
// another page has made.
func (m *machine) follow(page, from string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 10*time.Minute)
	defer cancel()
	s := m.open(ctx, page)
	all := blocksOf(m.T, page)
	if from != "" {
		first := slices.IndexFunc(all, func(b block) bool { return strings.HasSuffix("\n"+b.Text, "\n"+from) })
		if first < 0 {
			m.Fatalf("%s has no block that ends with %q", page, from)
		}
		all = all[first:]
		all[0].Text = "cd shop\n" + from
	}
	for _, b := range all {
		switch {
		case b.Language == "go":
			s.write(b)
		case strings.HasPrefix(b.Text, twice):
			s.takeTurns(b)
		case strings.HasPrefix(b.Text, killed):
			s.takeOver(b)
		default:
			s.enter(b)
		}
	}
}

// write makes the file that a block is. The server of the test has another port.
func (s *shell) write(b block) {
	s.Helper()
	if b.file() == "" {
		return // a part of a program
	}
	dir, _ := s.enterLine("pwd")
	code := strings.ReplaceAll(b.Text, "localhost:6379", s.addr)
	if err := os.WriteFile(filepath.Join(strings.TrimSpace(dir), b.file()), []byte(code), 0o600); err != nil {
		s.Fatal(err)
	}
}

// enter types the lines of a block, and returns what they printed.
func (s *shell) enter(b block) string {
	s.Helper()
	all := ""
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "make test" {
			line = "make -n test >/dev/null" // CI runs it, see .ci/run
		}
		text, status := s.enterLine(strings.ReplaceAll(line, "localhost:6379", s.addr))
		all += text
		want, refused := s.wanted(line)
		if refused != (status != 0) || !regexp.MustCompile(want).MatchString(text) {
			s.Fatalf("%s: %s: got status %d, want %q, and whether it fails: %v\n%s", s.page, line, status, want, refused, text)
		}
		if strings.HasPrefix(line, "sleep ") { // for the program to take the lock
			all = s.untilTokens(1, all)
		}
	}
	return all
}

// untilTokens reads on, after text, until programs have printed n tokens.
func (s *shell) untilTokens(n int, text string) string {
	s.Helper()
	for len(tokensIn(text)) < n {
		line, ok := s.next()
		if text += line; !ok || strings.HasPrefix(line, "done") {
			s.Fatalf("%s: programs printed this, want %d tokens\n%s", s.page, n, text)
		}
	}
	return text
}

// wanted returns a pattern of what a line prints, and whether the line is to fail.
func (s *shell) wanted(line string) (pattern string, fails bool) {
	if s.old {
		for begin, want := range tooNew {
			if strings.HasPrefix(line, begin) {
				return want, true
			}
		}
	}
	for begin, want := range printed {
		if strings.HasPrefix(line, begin) {
			return want, false
		}
	}
	return "", false
}

// takeTurns runs the program twice: the second has the lock when the first is done.
func (s *shell) takeTurns(b block) {
	s.Helper()
	text := s.enter(b)
	rest, _ := s.enterLine("wait")
	text += rest
	if tokens := tokensIn(text); len(tokens) != 2 || tokens[0] >= tokens[1] || strings.Count(text, "done, error: <nil>\n") != 2 {
		s.Errorf("%s: two programs did not take turns:\n%s", s.page, text)
	}
}

// takeOver kills the first of two programs: the second has the lock after its lease.
func (s *shell) takeOver(b block) {
	s.Helper()
	text := s.untilTokens(2, s.enter(b))
	if tokens := tokensIn(text); tokens[0] >= tokens[1] {
		s.Errorf("%s: got tokens %v, want them to rise\n%s", s.page, tokens, text)
	}
	if rest, _ := s.enterLine("kill -INT $!; wait"); !strings.Contains(rest, "done, error: ") {
		s.Errorf("%s: the second program was interrupted and printed %q", s.page, rest)
	}
}

// tokensIn returns the tokens that programs printed.
func tokensIn(text string) (tokens []uint64) {
	for _, m := range regexp.MustCompile(`(?m)^I have the lock, token (\d+)$`).FindAllStringSubmatch(text, -1) {
		token, err := strconv.ParseUint(m[1], 10, 64)
		if err == nil {
			tokens = append(tokens, token)
		}
	}
	return tokens
}
