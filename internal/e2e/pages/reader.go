package pages

import (
	"context"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Reader is a reader of a page, in the module of the quickstart.
type Reader struct {
	*testing.T
	dir         string
	Env         []string          // of its commands
	local, addr string            // the server of the page, and that of the test
	Administer  func(text string) // does what a block says that is neither Go nor of a shell
	start       string            // the line that runs the program
}

// NewReader returns a reader who has made the module of the quickstart. A page is for the
// server local, the test has addr.
func NewReader(t *testing.T, local, addr string) *Reader {
	t.Helper()
	home := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err == nil {
		err = os.Symlink(root, filepath.Join(home, "holdfast"))
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{T: t, dir: home, local: local, addr: addr, Env: append(os.Environ(), "GOWORK=off")}
	for _, b := range Of(t, "docs/quickstart.md") {
		if b.Language == "sh" && strings.Contains(b.Text, "\ngo mod init ") {
			r.Sh(regexp.MustCompile(`(?m)^git clone .*\n`).ReplaceAllString(b.Text, ""))
			r.dir = filepath.Join(home, "shop")
			return r
		}
	}
	t.Fatal("docs/quickstart.md does not make a module")
	return nil
}

// Follow does what all blocks of a page say, in their order.
func (r *Reader) Follow(page string) {
	r.Helper()
	for _, b := range Of(r, page) {
		switch b.Language {
		case "go":
			r.Write(b.Text)
		case "sh":
			r.enter(b.Text)
		default:
			if r.Administer == nil {
				r.Fatalf("%s: a block in the language %q:\n%s", page, b.Language, b.Text)
			}
			r.Administer(b.Text)
		}
	}
	if r.start == "" {
		r.Fatalf("%s does not run its program", page)
	}
}

// Write makes the file of a program.
func (r *Reader) Write(program string) {
	r.Helper()
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		r.Errorf("gofmt would change this program, error %v:\n%s", err, program)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "main.go"), []byte(r.here(program)), 0o600); err != nil {
		r.Fatal(err)
	}
}

// here replaces the server of the page by that of the test.
func (r *Reader) here(text string) string { return strings.ReplaceAll(text, r.local, r.addr) }

// enter types the lines of a block. A program that it runs has to get its lock.
func (r *Reader) enter(text string) {
	r.Helper()
	said := r.Sh(text)
	for line := range strings.Lines(text) {
		if strings.Contains(line, "go run .") {
			r.start = line
			r.wantLock(said)
		}
	}
}

// got is what a program prints that had its lock.
const got = `(?m)^I have the lock, token (\d+)\ndone, error: <nil>$`

func (r *Reader) wantLock(said string) (token string) {
	r.Helper()
	found := regexp.MustCompile(got).FindStringSubmatch(said)
	if found == nil {
		r.Fatalf("got this, want a lock and its release:\n%s", said)
	}
	return found[1]
}

// WantRefusal runs the program, which must not get its lock, and must say why.
func (r *Reader) WantRefusal(what, why string) {
	r.Helper()
	if said := r.Sh(r.start); regexp.MustCompile(got).MatchString(said) || !strings.Contains(said, why) {
		r.Errorf("%s: got this, want %q:\n%s", what, why, said)
	}
}

// Sh runs lines, each of which has to succeed, and returns what they printed.
func (r *Reader) Sh(lines string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", TidyRetries+"\n"+r.here(lines))
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.Env, time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%s\n%v\n%s", lines, err, said)
	}
	return string(said)
}
