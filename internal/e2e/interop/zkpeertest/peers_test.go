// Package zkpeertest shares locks in ZooKeeper with Curator and kazoo.
package zkpeertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// server is what all tests use, and observer a client that looks at it.
var (
	server   *zktest.Server
	observer *zk.Conn
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Beside(&server, &observer, ttl).Tests(m)) }

const (
	ttl     = 3 * time.Second // of sessions
	timeout = 30 * time.Second
)

// milliseconds is a TTL as the programs take it.
func milliseconds(ttl time.Duration) string { return strconv.FormatInt(ttl.Milliseconds(), 10) }

// library is another library for locks in ZooKeeper.
type library struct {
	name  string
	start func(t *testing.T) *exec.Cmd
}

func libraries() []library {
	return []library{
		{"Curator", func(t *testing.T) *exec.Cmd { return curator(t, server, ttl) }},
		{"kazoo", func(t *testing.T) *exec.Cmd {
			return exec.Command(installed(t, "kazoo", "bin", "python"), "../kazoo/peer.py", server.Addr(), milliseconds(ttl))
		}},
	}
}

// curator is Curator as a client of a server, with a session of ttl.
func curator(t *testing.T, s *zktest.Server, ttl time.Duration) *exec.Cmd {
	jar := installed(t, "curator", "peer.jar")
	classes := jar + string(os.PathListSeparator) + filepath.Join(filepath.Dir(jar), "lib", "*")
	return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m", "-cp", classes, "holdfast.peer.Main", s.Addr(), milliseconds(ttl))
}

// installed returns the path of what .ci/interop-zookeeper has made ready. Where it is
// missing the test skips, or fails if the environment variable CI is set.
func installed(t *testing.T, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{peer.Folder(t)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; .ci/interop-zookeeper prepares it", err)
		}
		t.Skipf("%v; .ci/interop-zookeeper prepares it", err)
	}
	return path
}

// locker returns a Locker with a session of its own.
func locker(t *testing.T, opts zkhold.Options) *holdfast.Locker {
	t.Helper()
	opts.TTL = ttl
	return lockerOn(t, server, opts)
}

func lockerOn(t *testing.T, s *zktest.Server, opts zkhold.Options) *holdfast.Locker {
	t.Helper()
	b := zkhold.New([]string{s.Addr()}, &opts)
	t.Cleanup(b.Close)
	l := holdfast.New(b, nil)
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

// name returns the name of a lock for t alone, without a slash.
func name(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "-") }
