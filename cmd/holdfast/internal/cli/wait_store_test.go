package cli

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/await"
)

// A store that is down at the start is waited for, as long as --wait says, and by elect
// until it is there. Without them it is an error at once.
func TestStoreIsDownAtStart(t *testing.T) {
	environ := []string{"PATH=" + os.Getenv("PATH")}
	const nowhere = "127.0.0.1:1"
	for _, command := range []string{"run -n", "run", "elect --once"} {
		got := call(t, environ, append(strings.Fields(command), "-u", nowhere, "job", "--", "true")...)
		got.want(t, output.ExitUnreachable, `"job" `, "cannot connect to "+nowhere+": connection refused")
		if strings.Contains(got.stderr, "waiting") || strings.Contains(got.stderr, "not executed") {
			t.Errorf("%s: got %q, want the reason alone", command, got.stderr)
		}
	}
	began := time.Now()
	call(t, environ, "run", "-w", "600ms", "-u", nowhere, "job", "--", "true").want(t, output.ExitUnreachable, "waiting for the store")
	if over := time.Now(); over.Before(began.Add(600 * time.Millisecond)) {
		t.Errorf("run -w 600ms ended after %v", over.Sub(began))
	}
	for _, command := range []string{"run -w 30s", "elect"} {
		addr := freeAddress(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := begin(t, ctx, strings.NewReader(""), environ, append(strings.Fields(command), "-u", addr, "job", "--", "echo", "it runs")...)
		await.Until(t, 20*time.Second, "the message", func() bool { return strings.Contains(c.stderr.String(), "waiting for the store") })
		server := miniredis.NewMiniRedis()
		if err := server.StartAddr(addr); err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		c.ready()
		cancel()
		c.wait()
	}
}

// freeAddress returns an address at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
