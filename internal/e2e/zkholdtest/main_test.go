// Package zkholdtest tests locks in a real ZooKeeper.
package zkholdtest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/zkhold"
)

// server is what all tests use that do not kill it, and observer a client that looks at it.
var (
	server   *zktest.Server
	observer *zk.Conn
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.Beside(&server, &observer, ttl).Tests(m)) }

// ttl is that of most tests.
const ttl = 2 * time.Second

// open returns a Backend on the common server, which is closed when t ends.
func open(t *testing.T, opts *zkhold.Options) *zkhold.Backend {
	t.Helper()
	return openOn(t, server, opts)
}

func openOn(t *testing.T, s *zktest.Server, opts *zkhold.Options) *zkhold.Backend {
	t.Helper()
	o := zkhold.Options{}
	if opts != nil {
		o = *opts
	}
	if o.TTL == 0 {
		o.TTL = ttl
	}
	b := zkhold.New([]string{s.Addr()}, &o)
	t.Cleanup(b.Close)
	return b
}
