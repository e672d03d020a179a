// Package zktest starts a real ZooKeeper for tests.
//
// A server listens on the loopback only, keeps its data in a temporary folder and ends
// with the test, also when the test program is killed (on Linux). Its jars are in the
// folder that the environment variable JarsEnv names; .ci/zookeeper gets them. Where
// there are none, Start fails the test.
package zktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// JarsEnv names the environment variable with the folder of the jars of ZooKeeper.
const JarsEnv = "HOLDFAST_ZOOKEEPER"

// Tick is the unit in which a server counts sessions: it ends them up to a tick late.
const Tick = 200 * time.Millisecond

// startLimit bounds how long a server may take to answer.
const startLimit = 30 * time.Second

// errNoJars says that it is not known where ZooKeeper is.
var errNoJars = errors.New("this test needs a real ZooKeeper: run it by make stores, or set " + JarsEnv + " to the folder of its jars (.ci/zookeeper gets them)")

// Server is one ZooKeeper, alone or of an ensemble. It looks for empty containers every
// second. Its methods may be called from several goroutines at once.
type Server struct {
	jars, dir string
	port      int

	child.Program
}

// Start runs a server for t and stops it when t ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// StartShort is Start of a server that grants no sessions longer than most.
func StartShort(t testing.TB, most time.Duration) *Server {
	t.Helper()
	return StartWith(t, fmt.Sprintf("maxSessionTimeout=%d", most.Milliseconds()))
}

// StartWith is Start of a server with further settings, lines of its zoo.cfg.
func StartWith(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := run(t.TempDir(), strings.Join(settings, "\n")+"\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Run runs a server outside of a test, with its data in dir. The caller must call Kill,
// and dir is the caller's to remove.
func Run(dir string) (*Server, error) { return run(dir, "") }

// run is Run with further settings, of which the last counts.
func run(dir, settings string) (*Server, error) {
	jars := os.Getenv(JarsEnv)
	if jars == "" {
		return nil, errNoJars
	}
	return child.UntilPortsAreFree(func() (*Server, error) { return runOn(jars, dir, settings) })
}

func runOn(jars, dir, settings string) (*Server, error) {
	port, err := redistest.FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{jars: jars, dir: dir, port: port}
	return s, errors.Join(s.configure(settings), s.Restart())
}

// configure writes the settings of a server.
func (s *Server) configure(more string) error {
	config := fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%d\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n",
		Tick.Milliseconds(), filepath.Join(s.dir, "data"), s.port)
	return os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(config+more), 0o600)
}

// StartEnsemble runs n servers for t that elect a leader, and stops them when t ends.
func StartEnsemble(t testing.TB, n int) []*Server {
	t.Helper()
	servers, members := make([]*Server, n), "initLimit=25\nsyncLimit=10\n"
	for i := range servers {
		var ports [3]int
		for k := range ports {
			var err error
			if ports[k], err = redistest.FreePort(); err != nil {
				t.Fatal(err)
			}
		}
		servers[i] = &Server{jars: os.Getenv(JarsEnv), dir: t.TempDir(), port: ports[0]}
		members += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, ports[1], ports[2])
	}
	errs := make(chan error, n)
	for i, s := range servers {
		data := filepath.Join(s.dir, "data")
		if err := errors.Join(s.configure(members), os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		go func() { errs <- s.Restart() }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		t.Fatal(err)
	}
	return servers
}

// Leads reports whether the server is the leader of its ensemble.
func (s *Server) Leads() bool { return s.mode() == "leader" }

// Addr returns the address for clients, "host:port".
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Restart starts the server again, with its data, after Kill.
func (s *Server) Restart() error {
	cmd := exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dzookeeper.forceSync=no", // a busy disk is not what is tested; what was written outlives the process
		"-Dznode.container.checkIntervalMs=1000",
		"-cp", filepath.Join(s.jars, "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"))
	if err := s.Serve(cmd, filepath.Join(s.dir, "zookeeper.log"), s.await); err != nil {
		return fmt.Errorf("ZooKeeper on %s: %w", s.Addr(), err)
	}
	return nil
}

// await waits until the server serves.
func (s *Server) await(done <-chan struct{}) error {
	for limit := time.Now().Add(startLimit); ; {
		if s.mode() != "" {
			return nil
		}
		select {
		case <-done:
			return errors.New("it ended")
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(limit) {
			return fmt.Errorf("no answer within %v", startLimit)
		}
	}
}

// mode is what the server is: standalone, leader or follower; "" while it does not serve.
func (s *Server) mode() string { return s.said("Mode") }

// Cost returns how many packets the server has got so far, how many connections it has,
// without that which asks, and how many requests have no answer yet.
func (s *Server) Cost() (received, connections, outstanding int) {
	number := func(field string) int {
		n, _ := strconv.Atoi(s.said(field))
		return n
	}
	return number("Received"), number("Connections") - 1, number("Outstanding")
}

// said asks the server for a field of its status; "" while it does not serve.
func (s *Server) said(field string) string {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte("srvr"))
	all, _ := io.ReadAll(conn)
	_, value, _ := strings.Cut(string(all), field+": ")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// Dial returns a client, which is the caller's to close.
func (s *Server) Dial() (*zk.Conn, error) { return Dial(s.Addr()) }

// Dial returns a client of the server at addr, which is the caller's to close.
func Dial(addr string) (*zk.Conn, error) {
	conn, _, err := zk.Connect([]string{addr, addr}, 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	return conn, err
}

// Client returns a client that is closed when t ends.
func (s *Server) Client(t testing.TB) *zk.Conn {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

type silent struct{}

// Printf does nothing: tests judge what the calls return.
func (silent) Printf(string, ...any) {}
