package zkholdtest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// A TTL above what the server grants is no obstacle: locks are kept with the session that
// it grants, and the log says so once. A margin that does not fit that is an error.
func TestShorterSession(t *testing.T) {
	t.Parallel()
	const granted = 4 * time.Second
	s := zktest.StartShort(t, granted)
	var log bytes.Buffer
	b := openOn(t, s, &zkhold.Options{TTL: 5 * time.Minute})
	var renewed renewals
	l := holdfast.New(b, &holdfast.Options{Observe: renewed.observe, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	held := must.Lock(t, l, name(t))
	for began := time.Now(); time.Since(began) < granted+zktest.Tick; {
		renewed.await(t, held, 1)
	}
	must.Unlock(t, held)
	must.Drain(t, l)
	if n := strings.Count(log.String(), "the store grants a shorter lease than the TTL"); n != 1 {
		t.Errorf("got %d lines of it, want one:\n%s", n, &log)
	}
	chosen := holdfast.New(b, &holdfast.Options{Margin: 30 * time.Second})
	if _, err := chosen.Lock(within(t), name(t)); err == nil || !strings.Contains(err.Error(), "a margin of 30s") {
		t.Errorf("with a margin that does not fit: got error %v, want one that says so", err)
	}
	must.Drain(t, chosen)
	if left := len(nodesOf(t, s, name(t))); left > 0 {
		t.Errorf("%d nodes are left", left)
	}
}

// shorter: the command line does the same, with the time for a command to end.
func shorter(t *testing.T, tool *storecli.Tool) {
	url := "zk://" + zktest.StartShort(t, 4*time.Second).Addr()
	var all []*storecli.Program
	for name, args := range map[string][]string{
		"short": {"run", "-t", "5m"}, "chosen": {"run", "-t", "30s", "--kill-after", "10s"}, "elected": {"elect", "-t", "30s", "--once"},
	} {
		args = append(args, "--url", url, name, "--", "sh", "-c", "sleep 3; echo it ends")
		all = append(all, tool.Start(args...))
		if name == "chosen" {
			all[len(all)-1].Await("--kill-after 10s is too long for the lease of 2.")
		}
	}
	for _, p := range all {
		p.Want(0, "it ends")
	}
}

// nodesOf returns the nodes below a name on a server.
func nodesOf(t *testing.T, s *zktest.Server, name string) []string {
	t.Helper()
	nodes, _, _ := s.Client(t).Children("/" + name)
	return nodes
}
