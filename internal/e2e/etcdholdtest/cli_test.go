package etcdholdtest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
)

// The command line tool, built and run as users do.
func TestCLI(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(server.Addr(), "http://")
	tool := storecli.New(t, storecli.Store{
		Network: "tcp", Addr: addr, Name: "etcd", Backend: "etcd",
		Shown: storecli.Shown{Queue: true, Rest: true, ReadWrite: true},
		URL: func(addr string) string { return "etcd://" + addr },
	})
	tool.Run(t)
	t.Run("OneHostIsEnough", func(t *testing.T) {
		tool := tool.In(t)
		several := "etcd://127.0.0.1:1," + addr
		tool.Start("run", "--url", several, "-n", name(t), "--", "true").Want(0)
		tool.Start("status", "--url", several).Want(0, "etcd version ")
		tool.Start("run", "--url", "etcd://u:s3cret@"+addr, "-n", name(t), "--", "true").Want(0) // there is no login to fail
	})
	t.Run("SharesNamesWithEtcdctl", func(t *testing.T) { sharesNames(t, tool.In(t)) })
}

// sharesNames: the name of a lock is what etcdctl calls it.
func sharesNames(t *testing.T, tool *storecli.Tool) {
	ctl := server.Control(t, "lock", "--ttl=2", name(t))
	out := sessiontest.StartProgram(t, ctl)
	if key, err := out.ReadString('\n'); err != nil || !strings.HasPrefix(key, name(t)+"/") {
		t.Fatalf("etcdctl lock: got %q, %v", key, err)
	}
	tool.Start("run", "-n", name(t), "--", "true").Want(75, "is held by")
	if err := ctl.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	held := tool.Start("run", name(t), "--", "sh", "-c", "echo held; read -r line; true")
	held.Await("held")
	out = sessiontest.StartProgram(t, server.Control(t, "lock", "--ttl=2", name(t), "echo", "it runs"))
	waitsIn(t, name(t), 2)
	held.End()
	held.Want(0)
	if said, err := out.ReadString('\n'); err != nil || !strings.Contains(said, "it runs") {
		t.Errorf("etcdctl lock: got %q, %v, want that it runs after the tool", said, err)
	}
}
