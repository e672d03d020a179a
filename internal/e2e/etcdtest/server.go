// Package etcdtest starts a real etcd for tests.
//
// A server listens on the loopback only, keeps its data in a temporary folder and ends
// with the test, also when the test program is killed (on Linux). Its program is what
// the environment variable ProgramEnv names, or etcd on PATH; .ci/etcd gets one. Where
// there is none, Start fails the test.
package etcdtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// ProgramEnv names the environment variable with the path of etcd. That of etcdctl is
// beside it.
const ProgramEnv = "HOLDFAST_ETCD"

// startLimit bounds how long a server may take to answer.
const startLimit = 15 * time.Second

// Server is one etcd, the only member of its cluster or one of several. The shortest TTL that it grants
// is a second. Its methods may be called from several goroutines at once.
type Server struct {
	program, dir string
	args         []string
	client       string // the address for clients

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

// Run runs a server outside of a test, with its data in dir. The caller must call Kill,
// and dir is the caller's to remove.
func Run(dir string) (*Server, error) {
	program, err := find("etcd")
	if err != nil {
		return nil, err
	}
	return child.UntilPortsAreFree(func() (*Server, error) { return runOn(program, dir) })
}

// find returns the path of a program of etcd.
func find(name string) (string, error) {
	if etcd := os.Getenv(ProgramEnv); etcd != "" {
		path := filepath.Join(filepath.Dir(etcd), name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s=%s: %w", ProgramEnv, etcd, err)
		}
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("this test needs a real etcd: run it by make stores, or set %s to the path of etcd (.ci/etcd gets one): %w", ProgramEnv, err)
	}
	return path, nil
}

func runOn(program, dir string) (*Server, error) {
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	s := newServer(program, dir, "one", ports, "one="+url(ports[1]))
	return s, s.Restart()
}

// freePorts returns one for clients and one for the other members.
func freePorts() (ports [2]int, err error) {
	for i := range ports {
		if ports[i], err = redistest.FreePort(); err != nil {
			break
		}
	}
	return ports, err
}

func url(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// newServer returns the member with that name, which was not started, of the cluster.
func newServer(program, dir, name string, ports [2]int, cluster string) *Server {
	return &Server{program: program, dir: dir, client: url(ports[0]), args: []string{
		"--name=" + name, "--data-dir=" + filepath.Join(dir, "data"), "--log-level=warn",
		"--listen-client-urls=" + url(ports[0]), "--advertise-client-urls=" + url(ports[0]),
		"--listen-peer-urls=" + url(ports[1]), "--initial-advertise-peer-urls=" + url(ports[1]), "--initial-cluster=" + cluster,
		"--heartbeat-interval=50", "--election-timeout=500", // the shortest lease is 1.5 times that
		"--bcrypt-cost=4",   // a login that takes long on a busy machine would be no answer to a call
		"--unsafe-no-fsync", // a busy disk is not what is tested; what was written outlives the process
	}}
}

// Addr returns the URL for clients.
func (s *Server) Addr() string { return s.client }

// Restart starts the server again, with its data, after Kill.
func (s *Server) Restart() error {
	cmd := exec.Command(s.program, s.args...)
	if err := s.Serve(cmd, filepath.Join(s.dir, "etcd.log"), s.await); err != nil {
		return fmt.Errorf("etcd on %s: %w", s.client, err)
	}
	return nil
}

// await waits until the server answers.
func (s *Server) await(done <-chan struct{}) error {
	client, err := s.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err = client.Get(ctx, "ready", clientv3.WithCountOnly())
	for err != nil && ctx.Err() == nil {
		_, err = client.Get(ctx, "ready", clientv3.WithCountOnly())
	}
	return err
}

// Dial returns a client, which is the caller's to close.
func (s *Server) Dial(opts ...grpc.DialOption) (*clientv3.Client, error) {
	config := s.config()
	config.DialOptions = opts
	return clientv3.New(config)
}

func (s *Server) config() clientv3.Config {
	return clientv3.Config{
		Endpoints: []string{s.client}, DialTimeout: startLimit,
		BackoffWaitBetween: 10 * time.Millisecond, // while it is restarted
		Logger:             zap.NewNop(),
	}
}

// Client returns a client that is closed when t ends.
func (s *Server) Client(t testing.TB, opts ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	client, err := s.Dial(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Control returns a command of etcdctl on the server.
func (s *Server) Control(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	program, err := find("etcdctl")
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(program, append([]string{"--endpoints=" + s.client}, args...)...)
}
