// Package etcdholdtest tests locks in a real etcd.
package etcdholdtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
)

// server is what all tests use that do not kill it, and observer a client that looks at it.
var (
	server   *etcdtest.Server
	observer *clientv3.Client
)

func TestMain(m *testing.M) {
	if addr, name, ok := strings.Cut(os.Getenv(mutexVar), " "); ok {
		fmt.Fprintln(os.Stderr, holdMutex(addr, name))
		os.Exit(1)
	}
	goleak.VerifyTestMain(sessiontest.Beside{
		Start: func(dir string) (string, func(), error) {
			var err error
			if server, err = etcdtest.Run(dir); err != nil {
				return "", nil, err
			}
			if observer, err = server.Dial(); err != nil {
				server.Kill()
				return "", nil, err
			}
			return server.Addr(), func() { _ = observer.Close(); server.Kill() }, nil
		},
		Open: func(addr string) (driver.Backend, error) {
			client, err := dialQuietly(addr)
			return etcdhold.New(client, &etcdhold.Options{TTL: 2 * shortest}), err
		},
	}.Tests(m))
}

// dialQuietly returns a client for a process whose output a test reads: a warning of the
// client would be part of that.
func dialQuietly(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
}

// shortest is the shortest TTL that the servers grant.
const shortest = time.Second

func openOn(t *testing.T, s *etcdtest.Server, ttl time.Duration, opts ...grpc.DialOption) *etcdhold.Backend {
	t.Helper()
	return etcdhold.New(s.Client(t, opts...), &etcdhold.Options{TTL: ttl})
}
