package cli

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

func TestDemoServeInterrupted(t *testing.T) {
	server, err := demo.StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	stdout := &interruptor{text: "To start a second demo"}
	status, stderr := runDemoWith(t.Context(), stdout, "--serve", "--listen", "127.0.0.1:0", "--url", server.URL())
	if status != 0 || stderr != "" {
		t.Errorf("got status %d and %q, want 0 and nothing", status, stderr)
	}
	for _, want := range []string{"open http://127.0.0.1:", "Ctrl-C ends it", "--url " + server.URL(), demo.StandInBanner} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q\n%s", want, &stdout.Buffer)
		}
	}
}

func TestDemoServeUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--serve", "--listen", "7071"},
		{"--serve", "--listen", ":7071"},
		{"--serve", "--listen", "0.0.0.0:7071"},
		{"--serve", "--listen", "[::]:7071"},
		{"--insecure-no-auth"},
		{"--serve", "--buyers", "3"},
		{"--serve", "--url", "redis://127.0.0.1:1", "--url", "redis://127.0.0.1:2"},
		{"--serve", "--url", "localhost"},
		{"--serve", "--url", "redis://127.0.0.1:6379?no=such"},
		{"--serve", "--cacert", "x.pem"},
		{"--url", "redis://127.0.0.1:1", "--url", "redis://127.0.0.1:2"},
		{"--listen", "127.0.0.1:0"},
	} {
		if status, stderr := runDemoWith(t.Context(), io.Discard, args...); status != output.ExitUsage {
			t.Errorf("%q: got status %d, want %d\n%s", args, status, output.ExitUsage, stderr)
		}
	}
}

func TestDemoServeCannot(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if status, stderr := runDemoWith(t.Context(), io.Discard, "--serve", "--listen", taken.Addr().String()); status != output.ExitFailure || !strings.Contains(stderr, "--listen") {
		t.Errorf("a port in use: got status %d and %q, want %d", status, stderr, output.ExitFailure)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if status, stderr := runDemoWith(t.Context(), io.Discard, "--serve", "--listen", "127.0.0.1:0", "--url", "redis://:secret@"+closed.Addr().String()); status != output.ExitUnreachable || strings.Contains(stderr, "secret") {
		t.Errorf("no server: got status %d and %q, want %d", status, stderr, output.ExitUnreachable)
	}
}
