// Package zkholdtest tests locks in a real ZooKeeper.
package zkholdtest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/cutofftest"
	"github.com/holdfast-go/holdfast/internal/e2e/lossytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
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

func TestConformance(t *testing.T) {
	drivertest.Suite{Open: func(t *testing.T) driver.Backend { return open(t, nil) }}.Run(t)
}

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

// sessions is what sessiontest needs of the common server.
func sessions() sessiontest.Store {
	return sessiontest.Store{
		TTL: ttl, Late: zktest.Tick,
		Open: func(t *testing.T, ttl time.Duration) sessiontest.Backend { return open(t, &zkhold.Options{TTL: ttl}) },
		Left: func(t *testing.T, name string) int { return len(nodes(t, name)) },
	}
}

func TestWaitersGiveUp(t *testing.T) {
	t.Parallel()
	sessions().WaitersGiveUp(t)
}

func TestGoneWaiters(t *testing.T) {
	t.Parallel()
	sessions().GoneWaiters(t)
}

// TestCutOff cuts holders off from the server.
func TestCutOff(t *testing.T) {
	const ttl = 3 * time.Second
	cutofftest.Store{
		Addr: server.Addr(), TTL: ttl,
		Open: func(t *testing.T, addr string) *holdfast.Locker {
			b := zkhold.New([]string{addr}, &zkhold.Options{TTL: ttl})
			t.Cleanup(b.Close)
			return sessiontest.LockerOf(t, b)
		},
	}.Run(t)
}

// TestLostAnswers has clients contend for a lock while a fifth of the answers is lost.
func TestLostAnswers(t *testing.T) {
	loseAnswers(t, lossytest.Store{Mutex: (*holdfast.Locker).FairMutex, Left: func(t *testing.T, name string) int { return len(nodes(t, name)) }})
}

// loseAnswers runs s over the server.
func loseAnswers(t *testing.T, s lossytest.Store) {
	const ttl = 4 * time.Second
	loss := &zktest.Loss{Rate: 0.2}
	s.TTL, s.Late = ttl, zktest.Tick
	s.Open = func(t *testing.T) driver.Backend { return open(t, &zkhold.Options{TTL: ttl, Dial: loss.Dialer}) }
	s.Lost, s.Heal = loss.Lost, loss.Heal
	s.Run(t)
}
