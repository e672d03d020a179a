package zkholdtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

// The command line tool, built and run as users do.
func TestCLI(t *testing.T) {
	t.Parallel()
	addr := server.Addr()
	tool := storecli.New(t, storecli.Store{
		Network: "tcp", Addr: addr, Name: "ZooKeeper", Backend: "ZooKeeper",
		Shown: storecli.Shown{Queue: true, ReadWrite: true},
		URL: func(addr string) string { return "zk://" + addr },
	})
	tool.Run(t)
	t.Run("OneHostIsEnough", func(t *testing.T) {
		tool := tool.In(t)
		several := "zk://127.0.0.1:1," + addr
		tool.Start("run", "--url", several, "-n", t.Name(), "--", "true").Want(0)
		tool.Start("status", "--url", several).Want(0, "ZooKeeper version 3.")
	})
	t.Run("TLS", func(t *testing.T) { overTLS(t, tool.In(t)) })
	t.Run("NamesArePathsBelowTheURL", func(t *testing.T) {
		tool := tool.In(t)
		held := tool.Start("run", "--url", "zk://"+addr+"/ops/locks", "deploy", "--", "sh", "-c", "echo held; read -r line; true")
		held.Await("held")
		tool.Start("run", "--url", "zk://"+addr, "-n", "ops/locks/deploy", "--", "true").Want(75, "is held by")
		tool.Start("run", "--url", "zk://"+addr, "-n", "deploy", "--", "true").Want(0)
		held.End()
		held.Want(0)
	})
}

// overTLS: zks:// locks over TLS, for as long as the certificate is trusted.
func overTLS(t *testing.T, tool *storecli.Tool) {
	s, addr, ca := zktest.StartTLS(t)
	url := "zks://" + addr
	held := tool.Start("run", "--url", url, "--cacert", ca, "tls", "--", "sh", "-c", "echo held; read -r line; true")
	held.Await("held")
	tool.Start("run", "--url", url, "--cacert", ca, "-n", "tls", "--", "true").Want(75, "is held by")
	tool.Start("run", "--url", "zk://"+s.Addr(), "-n", "tls", "--", "true").Want(75, "is held by")
	tool.Start("ls", "--url", url, "--cacert", ca, "--json").Want(0, `"name":"tls"`)
	tool.Start("status", "--url", url, "--cacert", ca).Want(0, "ZooKeeper version 3.")
	tool.Start("run", "--url", url, "-n", "tls", "--", "true").Want(69, "certificate")
	tool.Start("run", "--url", "zk://"+addr, "-n", "tls", "--", "true").Want(69)
	tool.Start("run", "--url", "zks://"+s.Addr(), "--cacert", ca, "-n", "tls", "--", "true").Want(69)
	held.End()
	held.Want(0)
}
