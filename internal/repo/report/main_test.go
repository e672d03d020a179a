package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/repo"
)

// sample is a repository with one finding of each kind, and with what is none. In it, ' stands
// for a backquote.
const sample = `-- README.md --
# The page

The holder is told of it. See [the log](told.md), 'told' and "told".

| told |

One two three. Four five!
'''sh
told
'''
-- README.zh-CN.md --
# 甲 told
-- docs/a.md --
It is short.
-- docs/zh/a.md --
甲
-- help.txt --
It stays for ever, {{whoever}} asks for untold amending.
-- page.html --
<p title="told">The fail-over took 3 s.</p>
-- Makefile --
told: # nobody is told
-- a.lua --
local told = 1 -- whoever calls
-- p/p.go --
package p

// renamed does nothing.
func TellAll() {}

// Sum is at most most of them, that is that.
//
//	no no
func sum() string { return "no word of it" + 'told "told" told' + "told" }
-- p/p_test.go --
package p

import "time"

// Others are told.
func TestTold() {
	began := time.Now()
	time.Sleep(1)
	took := time.Since(began)
	if took > 2 || time.Since(began) <= 3 || 4 > 5 {
		panic("told you")
	}
}
-- q/q_test.go --
package q

import (
	_ "testing/synctest"
	"time"
)

func f() { time.Sleep(1) }
`

const wanted = `Words that are hard to read: 11
Makefile:1: "told": say reported, notified; shows
README.md:3: "told": say reported, notified; shows
README.md:5: "told": say reported, notified; shows
a.lua:1: "whoever": say any caller that
help.txt:1: "for ever": say without limit, until it is deleted
p/p.go:4: the name TellAll
p/p.go:9: "no word of": say no message, no report
p/p.go:9: "told": say reported, notified; shows
p/p.go:9: "told": say reported, notified; shows
p/p_test.go:5: "told": say reported, notified; shows
page.html:1: "fail-over": say failover

Comments that begin with another name, or have a word twice: 2
p/p.go:3: begins with renamed, and declares TellAll
p/p.go:6: "most" stands twice

Pages in Chinese that are behind: 1
docs/zh/a.md:1: git diff FIRST docs/a.md

Pages, the longest first: 2
README.md:1: 23 words, 4.2 in a sentence
docs/a.md:1: 3 words, 3.0 in a sentence

Real time in tests: wait for an event, or measure with await.Watch: 3
p/p_test.go:8: a sleep in real time
p/p_test.go:10: a bound of real time
p/p_test.go:10: a bound of real time

`

func TestReport(t *testing.T) {
	dir := t.TempDir()
	parts := strings.Split("\n"+strings.ReplaceAll(sample, "'", "`"), "\n-- ")
	for _, part := range parts[1:] {
		name, text, _ := strings.Cut(part, " --\n")
		write(t, dir, name, text+"\n")
	}
	runGit(t, dir, "init", "-q")
	commit(t, dir)
	first := git(dir, "rev-parse", "--short", "HEAD")
	write(t, dir, "docs/a.md", "It is long.\n")
	synctest.Test(t, func(t *testing.T) { // which waits for goroutines: there are none
		want := strings.Replace(wanted, "FIRST", first, 1)
		if got := reported(t, dir); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})

	const none = "Pages in Chinese that are behind: 0\n"
	write(t, dir, "docs/zh/a.md", "乙\n")
	if got := reported(t, dir); !strings.Contains(got, none) {
		t.Errorf("while the page in Chinese changes: got\n%s", got)
	}
	commit(t, dir)
	if got := reported(t, dir); !strings.Contains(got, none) {
		t.Errorf("after both have changed: got\n%s", got)
	}
	write(t, dir, "docs/a.md", "It is short again.\n")
	commit(t, dir)
	if got := reported(t, dir); !strings.Contains(got, "docs/zh/a.md:1: git diff ") {
		t.Errorf("after a commit of the page in English: got\n%s", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	if got := reported(t, dir); !strings.Contains(got, "docs/zh/a.md:1: git knows no commit of it\n") {
		t.Errorf("without git: got\n%s", got)
	}
}

func reported(t *testing.T, dir string) string {
	t.Helper()
	r, err := repo.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	report(&out, r)
	return out.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	runGit(t, dir, "add", ".")
	runGit(t, dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a")
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
