package must

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"
)

// Build builds the program holdfast, and returns its path. If HOLDFAST_BINARY has the path of a
// program that is built already, Build returns that path: `make` builds one program for all
// tests.
func Build(t testing.TB) string {
	t.Helper()
	if built := os.Getenv("HOLDFAST_BINARY"); built != "" {
		return built
	}
	binary := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/holdfast-go/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// HearSignals catches each of the given signals that this process ignores. It is needed because
// a process in the background of a script ignores some signals. Programs that tests start would
// ignore these signals as well: a program inherits that a signal is ignored, but not that a
// signal is caught.
func HearSignals(signals ...os.Signal) {
	caught := make(chan os.Signal, 1)
	for _, s := range signals {
		if signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}
