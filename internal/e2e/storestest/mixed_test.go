package storestest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// A quorum whose members are different stores.

// mixedTTL is of leases that outlive a pause of a busy machine.
const mixedTTL = 3 * time.Second

// TestMixedQuorum kills and pauses the members of a quorum.
func TestMixedQuorum(t *testing.T) {
	t.Parallel()
	startMixedServers(t, mixedTTL, nil, anystore.PostgreSQL(), anystore.MariaDB()).faults()
}

// TestMixedQuorumConformance runs the specification, as far as a quorum declares that it
// keeps it.
func TestMixedQuorumConformance(t *testing.T) {
	m := startMixedServers(t, 2*time.Second, nil, anystore.PostgreSQL(), nil)
	shared := m.open(t)
	var known sync.Map                  // subtests that have it
	t.Run("Suite", func(t *testing.T) { // its subtests are parallel, and done before the servers stop
		drivertest.Suite{Open: func(t *testing.T) driver.Backend {
			if _, another := known.LoadOrStore(t.Name(), true); another {
				return m.open(t)
			}
			return shared
		}}.Run(t)
	})
}

// mixed is the servers of a quorum.
type mixed struct {
	*testing.T
	members []*part
}

// part is one of them.
type part struct {
	anystore.Server
	name string
	dial func() (driver.Backend, func(), error)
	left func(name string) ([]string, error)
}

// redisServer is a Redis that keeps what it acknowledged.
type redisServer struct{ *redistest.Server }

func (s redisServer) Restart() error {
	s.Server.Restart()
	return nil
}

func (s redisServer) Pause() error {
	s.Server.Pause()
	return nil
}

func (s redisServer) Resume() error {
	s.Server.Resume()
	return nil
}

// left returns the key of a lock, if there is one. Tombstones and counters stay longer.
func (s redisServer) left(name string) (names []string, err error) {
	if s.Int("EXISTS", name) == 1 {
		names = append(names, name)
	}
	return names, nil
}

// startMixedServers starts a member of each kind. nil is a Redis.
func startMixedServers(t *testing.T, ttl time.Duration, kinds ...*anystore.Kind) *mixed {
	t.Helper()
	m := &mixed{T: t}
	for _, k := range kinds {
		m.members = append(m.members, startPart(t, ttl, k))
	}
	return m
}

func startPart(t *testing.T, ttl time.Duration, k *anystore.Kind) *part {
	t.Helper()
	if k == nil {
		server := redisServer{redistest.Start(t, redistest.AOF())}
		return &part{Server: server, name: "redis", left: server.left, dial: func() (driver.Backend, func(), error) {
			conn, closeConn, err := dial.Server(dial.Adapters()[0], server.Addr(), "", "")
			return redishold.New(conn, nil), closeConn, err
		}}
	}
	store := k.Start(t)
	return &part{Server: store, name: k.Name, left: store.Left, dial: func() (driver.Backend, func(), error) {
		return k.Dial(store.Addr, ttl)
	}}
}

// open returns a client of all members, which t closes.
func (m *mixed) open(t *testing.T) driver.Backend {
	t.Helper()
	var members []driver.Backend
	for _, p := range m.members {
		b, shut, err := p.dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(shut)
		members = append(members, b)
	}
	b := of(t, members...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.(*quorum.Backend).Drain(ctx); err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
	l := holdfast.New(b, nil) // to connect takes longer than a call may
	must.Unlock(t, must.Lock(t, l, "connect"))
	must.Drain(t, l)
	return b
}

// locker returns a Locker of a program of its own, which is drained when the test ends.
func (m *mixed) locker(observe func(context.Context, holdfast.Event)) *holdfast.Locker {
	m.Helper()
	l := holdfast.New(m.open(m.T), &holdfast.Options{TTL: mixedTTL, Observe: observe})
	m.Cleanup(func() { must.Drain(m, l) })
	return l
}

// nothingLeft waits until no member keeps anything of a lock that was released.
func (m *mixed) nothingLeft(name string) {
	m.Helper()
	for _, p := range m.members {
		const late = 2 * time.Second // of a server that ends leases, on a busy machine
		if !await.Eventually(mixedTTL+late, func() bool {
			names, err := p.left(name)
			return err == nil && len(names) == 0
		}) {
			names, err := p.left(name)
			m.Errorf("a TTL after the release %s keeps %q, error %v", p.name, names, err)
		}
	}
}

// extended is the renewals of a Locker.
type extended struct {
	mu    sync.Mutex
	began time.Time            // of the call that was reported last
	sent  map[string]time.Time // the last one, by name
}

func newExtended() *extended {
	return &extended{sent: map[string]time.Time{}}
}

func (r *extended) observe(_ context.Context, e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Type == holdfast.EventCall && e.Op == holdfast.OpRenew:
		r.began = time.Now().Add(-e.Took)
	case e.Type == holdfast.EventRenew && e.Err == nil:
		r.sent[e.Name] = r.began
	}
}

// last returns when the last renewal was sent that succeeded.
func (r *extended) last(name string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[name]
}
