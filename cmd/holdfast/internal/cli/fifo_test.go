//go:build unix

package cli

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A command that reads a pipe to which nobody writes says so. Ctrl-C ends it.
func TestPipesThatNobodyWrites(t *testing.T) {
	s := newSite(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ls", "--config", pipe},
		{"run", "--config", pipe, "job", "--", "true"},
		{"config", "import", pipe},
		{"serve", "--basic-file", pipe},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			p := (&site{t: t, server: s.server, environ: s.environ}).start(nil, args...)
			p.await("holdfast: waiting for " + pipe)
			p.signal(syscall.SIGINT)
			if p.status(); p.cmd.ProcessState.Success() {
				t.Error("the command went on after Ctrl-C")
			}
		})
	}
}
