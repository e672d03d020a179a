package etcdholdtest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
)

// The command line tool in front of etcd, built and run as users do. Package storestest has what
// it does on every store.
func TestCLI(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(server.Addr(), "http://")
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: addr, URL: func(addr string) string { return "etcd://" + addr }})
	t.Run("OneHostIsEnough", func(t *testing.T) {
		tool := tool.In(t)
		several := "etcd://127.0.0.1:1," + addr
		tool.Start("run", "--url", several, "-n", name(t), "--", "true").Want(0)
		tool.Start("status", "--url", several).Want(0, "etcd version ")
		tool.Start("run", "--url", "etcd://u:s3cret@"+addr, "-n", name(t), "--", "true").Want(0) // there is no login to fail
	})
	t.Run("LoginOverTLS", func(t *testing.T) { loginOverTLS(t, tool.In(t)) })
	t.Run("SharesNamesWithEtcdctl", func(t *testing.T) { sharesNames(t, tool.In(t)) })
}

// The command doctor also asks the members that its URL does not name, and names those that
// are down, even if no majority is left.
func TestDoctorAsksAllMembers(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3)
	addr := strings.TrimPrefix(members[0].Addr(), "http://")
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: addr, URL: func(string) string { return "etcd://" + addr }})
	tool.Start("doctor", "-v", "--ttl", "5s").Want(0, "cluster, 2 followers, 1 leader, etcd ", "voting members: 3; of them 1 may fail\n")
	members[2].Kill()
	name, client := "", members[0].Client(t)
	list, err := client.MemberList(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.ClientURLs[0] == members[2].Addr() {
			name = m.Name
		}
	}
	tool.Start("doctor", "-v", "--ttl", "5s").Want(1, "cluster, 1 follower, 1 leader, etcd ", "voting members: 3; of them 1 may fail; not reached from here: 1\n",
		"warning  answers  ("+strings.TrimPrefix(members[2].Addr(), "http://")+")\n", "member "+name+" cannot be reached from here: "+members[2].Addr()+": ")
	members[1].Kill()
	tool.Start("doctor", "-v", "--ttl", "5s").Want(1, "cluster, 1 leader, etcd ", "voting members: 3; of them 1 may fail; not reached from here: 2\n")
}

// loginOverTLS: etcds:// locks over TLS, as a user whose password is nowhere shown.
func loginOverTLS(t *testing.T, tool *storecli.Tool) {
	s, addr, ca := etcdtest.StartTLS(t)
	askForLogins(t, s, "app", "s3/cr@t", "\x00", "\x00") // all keys
	as := func(who string, args ...string) *storecli.Program {
		return tool.Start(append([]string{args[0], "--url", "etcds://" + who + addr, "--cacert", ca}, args[1:]...)...)
	}
	const app = "app:s3%2Fcr%40t@"
	held := as(app, "run", "job", "--", "sh", "-c", "echo held; read -r line; true")
	held.Await("held")
	as(app, "run", "-n", "job", "--", "true").Want(75, "is held by")
	tool.Start("run", "--url", "etcd://"+app+strings.TrimPrefix(s.Addr(), "http://"), "-n", "job", "--", "true").Want(75, "is held by")
	as(app, "ls", "--json").Want(0, `"name":"job"`)
	as(app, "doctor", "-v", "--fail-on", "never").Want(0, "ok       locks: a test lock works", "voting members: 1")
	for _, args := range [][]string{{"run", "-n", "job", "--", "true"}, {"ls"}, {"doctor"}} {
		wrong := as("app:wr0ng@", args...)
		wrong.Want(77, "etcd at "+addr, "authentication failed, invalid user ID or password")
		wrong.Hides("wr0ng")
		status := 77
		if args[0] == "doctor" && saysVersion(t, s) {
			status = 1 // there is something to examine
		}
		as("", args...).Want(status, "user name is empty")
	}
	tool.Start("run", "--url", "etcds://"+app+addr, "-n", "job", "--", "true").Want(69, "certificate")
	tool.Start("run", "--url", "etcd://"+app+addr, "-n", "job", "--", "true").Want(69, "etcd at "+addr)
	held.End()
	held.Want(0)
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

// saysVersion reports whether the server answers with its version where there is no login.
func saysVersion(t *testing.T, s *etcdtest.Server) bool {
	_, err := s.Client(t).Status(within(t), s.Addr())
	return err == nil
}
