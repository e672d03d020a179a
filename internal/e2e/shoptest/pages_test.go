//go:build unix

package shoptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

// TestPages types every line of the README in a copy of the repository, and wants each to
// succeed, and to print what its comment says.
func TestPages(t *testing.T) {
	server := redistest.Start(t)
	database, _ := sqltest.StartPostgreSQL(t)
	replace := []string{"localhost:6379", server.Addr(), "postgres://shop@localhost:5432/shop", database}
	for _, port := range []string{"localhost:8081", "localhost:8082"} {
		free, err := redistest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		replace = append(replace, port, fmt.Sprintf("localhost:%d", free))
	}
	replacer := strings.NewReplacer(replace...)
	home := filepath.Join(t.TempDir(), "holdfast")
	copyRepository(t, home)

	const next = "== the next line\n"
	script := "set -e\n" + retry + "\n"
	var lines []string
	for _, b := range pages.Of(t, "examples/shop/README.md") {
		if b.Language != "sh" {
			t.Fatalf("a block in the language %q, want sh:\n%s", b.Language, b.Text)
		}
		for line := range strings.Lines(b.Text) {
			lines = append(lines, line)
			script += fmt.Sprintf("echo %q\n%s", strings.TrimSpace(next), replacer.Replace(line))
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", script)
	sh.Dir = filepath.Join(home, "examples/shop")
	sh.Env = append(os.Environ(), "GOWORK=")
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	sh.WaitDelay = time.Second // for instances that it left behind, as it failed
	out, err := sh.CombinedOutput()
	_ = syscall.Kill(-sh.Process.Pid, syscall.SIGKILL)
	printed := strings.Split(string(out), next)[1:]
	if err != nil || len(printed) != len(lines) {
		t.Fatalf("%d of %d lines were typed: %v\n%s", len(printed), len(lines), err, out)
	}
	expected := regexp.MustCompile(`# (.+)`)
	for n, line := range lines {
		if want := expected.FindStringSubmatch(line); want != nil && !strings.Contains(printed[n], want[1]) {
			t.Errorf("%s: it printed\n%s", strings.TrimSpace(line), printed[n])
		}
	}
}

// retry has "go mod tidy" try again: what a module proxy refuses once it may give later.
const retry = `go() { case "$*" in "mod tidy") command go mod tidy || command go mod tidy || command go mod tidy;; *) command go "$@";; esac; }`

// copyRepository copies the files of this repository, also those that are not committed.
func copyRepository(t *testing.T, to string) {
	t.Helper()
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	line := `git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory="$0"`
	list := exec.CommandContext(t.Context(), "sh", "-c", line, to)
	list.Dir = root
	if out, err := list.CombinedOutput(); err != nil {
		t.Fatalf("copy the repository: %v\n%s", err, out)
	}
}
