//go:build unix

package shoptest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

// TestPages types every line of the README in a copy of the repository, and wants each to
// succeed, and to print what its comment says.
func TestPages(t *testing.T) {
	var lines []string
	for _, b := range pages.Of(t, "examples/shop/README.md") {
		if b.Language != "sh" {
			t.Fatalf("a block in the language %q, want sh:\n%s", b.Language, b.Text)
		}
		lines = slices.AppendSeq(lines, strings.Lines(b.Text))
	}
	printed, err := child.UntilPortsAreFree(func() ([]string, error) { return enter(t, lines) })
	if err != nil {
		t.Fatal(err)
	}
	expected := regexp.MustCompile(`# (.+)`)
	for n, line := range lines {
		if want := expected.FindStringSubmatch(line); want != nil && !strings.Contains(printed[n], want[1]) {
			t.Errorf("%s: it printed\n%s", strings.TrimSpace(line), printed[n])
		}
	}
}

// enter types lines, with servers of its own in place of those of the page, and returns what
// each line printed.
func enter(t *testing.T, lines []string) (printed []string, err error) {
	t.Helper()
	database, _ := sqltest.StartPostgreSQL(t)
	replace := []string{"localhost:6379", redistest.Start(t).Addr(), "postgres://shop@localhost:5432/shop", database}
	for _, port := range []string{"localhost:8081", "localhost:8082"} {
		free, err := redistest.FreePort()
		if err != nil {
			return nil, err
		}
		replace = append(replace, port, fmt.Sprintf("localhost:%d", free))
	}
	replacer := strings.NewReplacer(replace...)
	home := filepath.Join(t.TempDir(), "holdfast")
	copyRepository(t, home)

	const next = "== the next line\n"
	script := "set -e\n" + pages.TidyRetries + "\n"
	for _, line := range lines {
		script += fmt.Sprintf("echo %q\n%s", strings.TrimSpace(next), replacer.Replace(line))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", script)
	sh.Dir = filepath.Join(home, "examples/shop")
	sh.Env = append(os.Environ(), "GOWORK=")
	sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	sh.Cancel = func() error { return syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) }
	sh.WaitDelay = time.Second // for instances that it left behind, as it failed
	out, err := sh.CombinedOutput()
	if sh.Process != nil {
		_ = sh.Cancel()
	}
	printed = strings.Split(string(out), next)[1:]
	switch {
	case strings.Contains(string(out), "address already in use"):
		return nil, child.ErrPortTaken
	case err != nil || len(printed) != len(lines):
		return nil, fmt.Errorf("%d of %d lines were typed: %v\n%s", len(printed), len(lines), err, out)
	}
	return printed, nil
}

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
