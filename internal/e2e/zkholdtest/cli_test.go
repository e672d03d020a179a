package zkholdtest

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

// The command line tool in front of ZooKeeper, built and run as users do. Package storestest has
// what it does on every store.
func TestCLI(t *testing.T) {
	t.Parallel()
	addr := server.Addr()
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: addr, URL: func(addr string) string { return "zk://" + addr }})
	t.Run("OneHostIsEnough", func(t *testing.T) {
		tool := tool.In(t)
		several := "zk://127.0.0.1:1," + addr
		tool.Start("run", "--url", several, "-n", t.Name(), "--", "true").Want(0)
		tool.Start("status", "--url", several).Want(0, "ZooKeeper version 3.")
	})
	t.Run("TLS", func(t *testing.T) { overTLS(t, tool.In(t)) })
	t.Run("ShorterSession", func(t *testing.T) { shorter(t, tool.In(t)) })
	t.Run("Login", func(t *testing.T) { login(t, tool.In(t)) })
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

// login: below a node for one user, only that user has locks, and the password is nowhere
// shown. ZooKeeper knows no wrong password: it makes somebody else of the user.
func login(t *testing.T, tool *storecli.Tool) {
	if _, err := observer.Create("/login", nil, 0, zk.DigestACL(zk.PermAll, "app", "s3/cr@t")); err != nil {
		t.Fatal(err)
	}
	as := func(who string, args ...string) *storecli.Program {
		return tool.Start(append([]string{args[0], "--url", "zk://" + who + server.Addr() + "/login"}, args[1:]...)...)
	}
	for _, who := range []string{"app:wr0ng@", ""} { // first: what a doctor with rights leaves there is open to everybody
		wrong := as(who, "doctor")
		wrong.Want(1, "danger   locks", "ZooKeeper does not let this client")
		wrong.Hides("wr0ng")
	}
	const app = "app:s3%2Fcr%40t@"
	held := as(app, "run", "job", "--", "sh", "-c", "echo held; read -r line; true")
	held.Await("held")
	as(app, "run", "-n", "job", "--", "true").Want(75, "is held by")
	as(app, "ls", "--json").Want(0, `"name":"job"`)
	as(app, "doctor", "-v", "--fail-on", "never").Want(0, "ok       locks: a test lock works")
	for _, who := range []string{"app:wr0ng@", ""} {
		for _, args := range [][]string{{"run", "-n", "other", "--", "true"}, {"ls"}} {
			wrong := as(who, args...)
			wrong.Want(77, "ZooKeeper does not let this client use the nodes of the lock")
			wrong.Hides("wr0ng")
		}
	}
	held.End()
	held.Want(0)
}

// overTLS: zks:// locks over TLS, for as long as the certificate is trusted, also as a user.
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

	admin, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Create("/login", nil, 0, zk.DigestACL(zk.PermAll, "app", "s3/cr@t")); err != nil {
		t.Fatal(err)
	}
	as := func(who string) *storecli.Program {
		return tool.Start("run", "--url", "zks://"+who+addr+"/login", "--cacert", ca, "-n", "job", "--", "true")
	}
	for _, who := range []string{"app:wr0ng@", ""} { // first: what the user makes below the node is open to everybody
		wrong := as(who)
		wrong.Want(77, "ZooKeeper does not let this client use the nodes of the lock")
		wrong.Hides("wr0ng")
	}
	as("app:s3%2Fcr%40t@").Want(0)
}
