package cli

import (
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/must"
)

// What other stores do is in internal/e2e/storecli; here nothing of them runs.

// untouched returns an address to which nobody may connect before the test ends.
func untouched(t *testing.T) string {
	t.Helper()
	var connected atomic.Int64
	t.Cleanup(func() { // after the server has ended, which it does first
		if n := connected.Load(); n > 0 {
			t.Errorf("somebody connected %d times", n)
		}
	})
	return must.Serve(t, func(net.Conn) { connected.Add(1) })
}

// What a store does not have, and flags that it does not know, are refused before
// anything is sent.
func TestWhatAStoreDoesNotHave(t *testing.T) {
	addr := untouched(t)
	etcd, zk, postgres, mysql := "etcd://"+addr, "zk://"+addr, "postgres://u@"+addr+"/d", "mysql://u@"+addr+"/d"
	for _, test := range []struct {
		url, args string
		code      int
		want      string
	}{
		{postgres, "run --fair job true", 125, "PostgreSQL has no fair locks (--fair): unsupported"},
		{mysql, "run --fair job true", 125, "MySQL has no fair locks"},
		{postgres, "hold --shared job", 125, "PostgreSQL has no read-write locks"},
		{mysql, "run --exclusive job true", 125, "MySQL has no read-write locks"},
		{mysql, "hold --permits 2 job", 125, "MySQL has no semaphores (--permits)"},
		{etcd, "resize job 3", 125, "etcd cannot change how many permits"},
		{zk, "resize job 3", 125, "ZooKeeper cannot change how many permits"},
		{postgres, "resize job 3", 125, "PostgreSQL cannot change how many permits"},

		{etcd, "run --layout plain job true", 64, "--layout is for Redis, and not for etcd"},
		{postgres, "run --replicas 1 job true", 64, "--replicas is for Redis, and not for PostgreSQL"},
		{mysql, "ls --layout redisson", 64, "--layout is for Redis, and not for MySQL"},
		{etcd, "run --prefix p: job true", 64, `--prefix (or HOLDFAST_PREFIX, or prefix in the configuration) is only for Redis`},
		{etcd, "run --event-log job true", 64, "etcd has no event log"},
		{etcd, "run --ttl 1500ms --kill-after 100ms job true", 64, "etcd keeps leases of whole seconds; use 2s"},
		{etcd, "hold --ttl 400ms job", 64, "use 1s"},
		{etcd, "run -u " + etcd + " -u " + etcd + " job true", 64, "may name all members of a cluster"},
		{mysql, "run -u redis://h -u redis://i -u " + mysql + " job true", 64, "a lock on several independent stores needs servers of Redis"},
		{etcd, "status --cacert /no/such.pem", 64, "/no/such.pem"},
		{etcd, "status --insecure", 64, "use etcds instead of etcd"},
		{postgres, "status -u postgres://h/d?sslmode=disable --insecure", 64, "sslmode=disable"},
		{mysql, "demo --url " + mysql + "?nonsense=1", 64, "--url"},
		{mysql, "demo --url " + mysql + "?layout=shedlock", 125, "MySQL has no fencing tokens in that layout"},
		{postgres, "status -u postgres://u@h/d?layout=redisson", 64, "neither lease nor shedlock"},
		{mysql, "demo --serve --url " + mysql, 64, "--serve works with Redis only, not with MySQL"},
		{zk, "run --layout plain job true", 64, "--layout is for Redis, and not for ZooKeeper"},
		{zk, "status --insecure", 64, "use zks instead of zk"},
		{"zoo://" + addr, "status", 64, `HOLDFAST_URL is a URL with the unknown scheme "zoo"; use redis://`},
	} {
		got := call(t, bare("HOLDFAST_URL="+test.url), strings.Fields(test.args)...)
		got.want(t, test.code, test.want)
		if t.Failed() {
			t.Fatalf("%s with %s", test.args, test.url)
		}
	}
	call(t, bare("HOLDFAST_URL="+etcd, "HOLDFAST_PREFIX=p:"), "run", "job", "true").want(t, 64, "begin the name of the lock with \"p:\"")
}

// No error of a store shows its password.
func TestPasswordsOfOtherStores(t *testing.T) {
	gone := "127.0.0.1:1"
	for _, url := range []string{"etcd://u:s3cret@" + gone, "zk://u:s3cret@" + gone, "postgres://u:s3cret@" + gone + "/d", "postgres://u@" + gone + "/d?password=s3cret", "mysql://u:s3cret@" + gone + "/d"} {
		got := call(t, bare("HOLDFAST_LOG_LEVEL=debug"), "run", "-v", "-u", url, "job", "true")
		got.want(t, 69, "can read the password in --url", gone)
		if strings.Contains(got.stderr, "s3cret") {
			t.Errorf("the password was printed: %s", got.stderr)
		}
	}
}

// Each store has a section of the configuration.
func TestConfigurationOfOtherStores(t *testing.T) {
	for _, scheme := range open.Schemes() {
		kind, err := open.KindOf(scheme + "://h")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(config.Keys(), string(kind)+".password_file") {
			t.Errorf("%s has no section in the configuration", kind)
		}
		if !strings.Contains(helpText(t, "configuration"), "\n  "+string(kind)+":") {
			t.Errorf("the section %s is not in: holdfast help configuration", kind)
		}
	}
}

// The help names every scheme.
func TestEverySchemeIsInTheHelp(t *testing.T) {
	urls := helpText(t, "urls")
	for _, scheme := range open.Schemes() {
		base, form, _ := strings.Cut(strings.ReplaceAll(scheme, "-", "+"), "+")
		if !strings.Contains(urls, base) || form != "" && !strings.Contains(urls, "redis+"+form+"://") {
			t.Errorf("%s:// is not in the help of run", scheme)
		}
	}
	root := newRootCommand(output.Environment{})
	for _, name := range []string{"run", "hold", "elect", "ls", "status", "tail"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range []string{"redis://", "etcd://", "zk://", "postgres://", "mysql://"} {
			if !strings.Contains(cmd.Flags().Lookup("url").Usage, scheme) {
				t.Errorf("%s --url does not say %s", name, scheme)
			}
		}
	}
}
