package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// demoEnviron is the environment in which this test binary is the program.
func demoEnviron() []string {
	return append(os.Environ(), "HOLDFAST_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0")
}

func runDemoWith(ctx context.Context, stdout io.Writer, args ...string) (status int, stderr string) {
	var b bytes.Buffer
	status = run(ctx, append([]string{"demo"}, args...), output.Environment{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &b, Environ: demoEnviron()})
	return status, b.String()
}

func TestDemo(t *testing.T) {
	var stdout bytes.Buffer
	status, stderr := runDemoWith(t.Context(), &stdout, "--buyers", "12", "--items", "3", "--processes", "2", "--look", "300ms", "--timeout", "1m")
	if status != 0 {
		t.Fatalf("got status %d, want 0\n%s\n%s", status, stderr, &stdout)
	}
	for _, want := range []string{demo.StandInBanner, "redis-cli -u redis://", "Everything happened as claimed."} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q\n%s", want, &stdout)
		}
	}
}

func TestDemoDoesNotShowThePassword(t *testing.T) {
	s := newSite(t)
	s.server.RequireAuth("s3cret")
	var stdout bytes.Buffer
	_, stderr := runDemoWith(t.Context(), &stdout, "--buyers", "12", "--items", "3", "--processes", "2", "--timeout", "2s", // long enough to say where
		"--url", strings.Replace(s.url, "://", "://:s3cret@", 1))
	if all := stdout.String() + stderr; !strings.Contains(all, s.url) || strings.Contains(all, "s3cret") {
		t.Errorf("got %s, want %s without its password", all, s.url)
	}
}

func TestDemoUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--buyers", "3", "--items", "3"},
		{"--processes", "0"},
		{"--timeout", "-1s"},
		{"--no-such-flag"},
		{"surplus"},
	} {
		if status, stderr := runDemoWith(t.Context(), io.Discard, args...); status != output.ExitUsage {
			t.Errorf("%q: got status %d, want %d\n%s", args, status, output.ExitUsage, stderr)
		}
	}
}

func TestDemoWorkerByHand(t *testing.T) {
	if status, stderr := runDemoWith(t.Context(), io.Discard, "worker"); status != output.ExitFailure || !strings.Contains(stderr, "started by the demo") {
		t.Errorf("got status %d and %q, want %d and an explanation", status, stderr, output.ExitFailure)
	}
}

// interruptor presses Ctrl-C when the demo prints text.
type interruptor struct {
	bytes.Buffer
	text string
}

func (w *interruptor) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	}
	return w.Buffer.Write(p)
}

func TestDemoInterrupted(t *testing.T) {
	server, err := demo.StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stdout := &interruptor{text: "This is her lock"}
	status, stderr := runDemoWith(t.Context(), stdout, "--url", server.URL(), "--buyers", "4", "--items", "2", "--processes", "2", "--timeout", "1m")
	if status != 128+int(syscall.SIGINT) {
		t.Errorf("got status %d, want %d\n%s\n%s", status, 128+int(syscall.SIGINT), stderr, &stdout.Buffer)
	}
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("the demo left keys behind: %q", keys)
	}
}
