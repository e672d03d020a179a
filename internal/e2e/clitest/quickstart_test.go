//go:build unix

package clitest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// blocks are the pieces of code of a page, by language, in their order.
type block struct{ language, text string }

func blocksOf(t *testing.T, page string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```(go|sh)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, block{m[1], m[2]})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no code", page)
	}
	return all
}

// bare returns code without its comments, in which pages of two languages differ.
func (b block) bare() string {
	if b.language != "go" {
		return b.text
	}
	return regexp.MustCompile(`(?m)[ \t]*//.*$`).ReplaceAllString(b.text, "")
}

// The pages in Chinese have the same code as those in English, and the README the
// program of the quickstart.
func TestPagesHaveTheSameCode(t *testing.T) {
	for page, other := range map[string]string{"README.md": "README.zh-CN.md", "docs/quickstart.md": "docs/zh/quickstart.md"} {
		one, two := blocksOf(t, page), blocksOf(t, other)
		if !slices.EqualFunc(one, two, func(a, b block) bool { return a.bare() == b.bare() }) {
			t.Errorf("%s has other code than %s", other, page)
		}
	}
	program := func(page string) string {
		blocks := blocksOf(t, page)
		return blocks[slices.IndexFunc(blocks, func(b block) bool { return b.language == "go" })].text
	}
	if readme, quickstart := program("README.md"), program("docs/quickstart.md"); readme != quickstart {
		t.Errorf("the README has another program than the quickstart:\n%s", readme)
	} else if n := strings.Count(readme, "\n"); n > 34 {
		t.Errorf("the program has %d lines, want 34 at most", n)
	}
}

// beginner does what a quickstart says, in a folder beside a clone.
type beginner struct {
	*testing.T
	dir  string // where it is now
	addr string // of the server
}

// TestQuickstart types what the quickstart says, in both languages, and sees what it says.
func TestQuickstart(t *testing.T) {
	await.NotShort(t, "the program works for ten seconds, and its lease ends after five")
	for _, page := range []string{"docs/quickstart.md", "docs/zh/quickstart.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			root, err := filepath.Abs("../../..")
			if err != nil {
				t.Fatal(err)
			}
			b := &beginner{T: t, dir: t.TempDir(), addr: redistest.Start(t).Addr()}
			if err := os.Symlink(root, filepath.Join(b.dir, "holdfast")); err != nil {
				t.Fatal(err)
			}
			for _, block := range blocksOf(t, page) {
				b.follow(block)
			}
		})
	}
}

func (b *beginner) follow(block block) {
	b.Helper()
	switch {
	case block.language == "go":
		b.write(block.text)
	case block.text == "./shop\n":
		b.takeTurns()
	case block.text == "kill -9 $PID\n":
		b.takeOver()
	default:
		for line := range strings.Lines(block.text) {
			b.shell(strings.TrimSpace(line))
		}
	}
}

// write makes a file of the module. The server of the test has another port.
func (b *beginner) write(code string) {
	b.Helper()
	name := "main.go"
	if strings.Contains(code, `"testing"`) {
		name = "main_test.go"
	}
	code = strings.ReplaceAll(code, "localhost:6379", b.addr)
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(code), 0o600); err != nil {
		b.Fatal(err)
	}
}

// shell runs a line. What a module proxy refuses once it may give later.
func (b *beginner) shell(line string) {
	b.Helper()
	if dir, ok := strings.CutPrefix(line, "cd "); ok {
		b.dir = filepath.Join(b.dir, dir)
		return
	}
	var out []byte
	var err error
	for range 3 {
		cmd := exec.CommandContext(b.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
		if out, err = cmd.CombinedOutput(); err == nil || line != "go mod tidy" {
			break
		}
	}
	if err != nil {
		b.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// takeTurns starts the program twice: the second has the lock when the first is done.
func (b *beginner) takeTurns() {
	b.Helper()
	one := b.start()
	first := one.token()
	two := b.start()
	one.says("done, error: <nil>")
	if second := two.token(); second <= first {
		b.Errorf("token %s after %s", second, first)
	}
	two.says("done, error: <nil>")
}

// takeOver kills the first of two programs: the second has the lock after its lease.
func (b *beginner) takeOver() {
	b.Helper()
	one := b.start()
	first := one.token()
	two := b.start()
	killed := time.Now()
	if err := one.cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	if second := two.token(); second <= first {
		b.Errorf("token %s after %s", second, first)
	}
	if took := time.Since(killed); took > 8*time.Second {
		b.Errorf("the lock was free %v after the kill, want 5s", took)
	}
	if err := two.cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	two.says("done, error: ")
}

// shop is the program of the quickstart while it runs.
type shop struct {
	b     *beginner
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func (b *beginner) start() *shop {
	b.Helper()
	p := &shop{b: b, cmd: exec.Command("./shop")}
	p.cmd.Dir = b.dir
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// says wants the next line to begin with text, and returns the rest.
func (p *shop) says(text string) string {
	p.b.Helper()
	if !p.lines.Scan() {
		p.b.Fatalf("the program ended before it said %q", text)
	}
	rest, ok := strings.CutPrefix(p.lines.Text(), text)
	if !ok {
		p.b.Fatalf("the program said %q, want %q", p.lines.Text(), text)
	}
	return rest
}

func (p *shop) token() string {
	p.b.Helper()
	return fmt.Sprintf("%20s", p.says("I have the lock, token "))
}
