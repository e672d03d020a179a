package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

const ttl = 30 * time.Second

// member is a node with faults. Without any it is healthy.
type member struct {
	mu      sync.Mutex
	store   *memhold.Backend
	latency time.Duration // of every call, half of it before it arrives
	hole    bool          // no call is answered
	refuse  error         // the answer to every call, which is not executed
	deaf    bool          // calls are executed, and their replies are lost
	panics  bool
	grants  bool // it grants every try, and keeps nothing
	id      string
	started time.Time
	tries   int
}

// incarnated is a member that reports its restarts.
type incarnated struct{ *member }

func newMember() *member { return &member{store: memhold.New()} }

// change changes the faults of a member while it is in use.
func (m *member) change(fn func(*member)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(m)
}

// restart restarts the member, which forgets everything.
func (m *member) restart(id string) {
	m.change(func(m *member) { m.store, m.id, m.started = memhold.New(), id, time.Now() })
}

// through makes a call to the store that the member has when the call arrives.
func (m *member) through(ctx context.Context, call func(*memhold.Backend) error) error {
	m.mu.Lock()
	latency, refuse, panics := m.latency, m.refuse, m.panics
	m.mu.Unlock()
	if panics {
		panic("boom")
	}
	if refuse != nil {
		return refuse
	}
	if err := sleep(ctx, latency/2); err != nil {
		return err
	}
	m.mu.Lock()
	store, hole, deaf := m.store, m.hole, m.deaf
	m.mu.Unlock()
	if hole {
		<-ctx.Done()
		return ctx.Err()
	}
	err := call(store)
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := sleep(ctx, latency/2); err != nil {
		return err
	}
	return err
}

func (m *member) Info() driver.Info { return m.store.Info() }

func (m *member) Try(ctx context.Context, c driver.Claim) (out driver.Outcome, err error) {
	m.change(func(m *member) { m.tries++ })
	if m.grants {
		return driver.Outcome{Granted: true, ValidFor: c.TTL}, nil
	}
	err = m.through(ctx, func(s *memhold.Backend) (err error) {
		out, err = s.Try(ctx, c)
		return err
	})
	if err != nil {
		out = driver.Outcome{}
	}
	return out, err
}

func (m *member) Renew(ctx context.Context, cs []driver.Claim) (rs []driver.Renewal, err error) {
	err = m.through(ctx, func(s *memhold.Backend) (err error) {
		rs, err = s.Renew(ctx, cs)
		return err
	})
	return rs, err
}

func (m *member) Release(ctx context.Context, c driver.Claim) error {
	return m.through(ctx, func(s *memhold.Backend) error { return s.Release(ctx, c) })
}

func (m *member) Waiter(c driver.Claim) driver.Waiter { return m.store.Waiter(c) }

func (m incarnated) Incarnation(ctx context.Context) (id string, uptime time.Duration, err error) {
	err = m.through(ctx, func(*memhold.Backend) error {
		m.change(func(m *member) { id, uptime = m.id, time.Since(m.started) })
		return nil
	})
	return id, uptime, err
}

// cluster is a quorum with its members.
type cluster struct {
	*testing.T
	*Backend
	members []*member
	owners  int
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{T: t}
	var backends []driver.Backend
	for range n {
		m := newMember()
		c.members = append(c.members, m)
		backends = append(backends, m)
	}
	c.Backend = must(t, backends, nil)
	return c
}

// newIncarnated returns a cluster of members that report restarts, and were started an hour
// ago.
func newIncarnated(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{T: t}
	var backends []driver.Backend
	for i := range n {
		m := newMember()
		m.id, m.started = fmt.Sprint("first ", i), time.Now().Add(-time.Hour)
		c.members = append(c.members, m)
		backends = append(backends, incarnated{m})
	}
	c.Backend = must(t, backends, nil)
	return c
}

func must(t *testing.T, backends []driver.Backend, opts *Options) *Backend {
	t.Helper()
	b, err := New(backends, opts)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { _ = b.Drain(context.Background()) })
	return b
}

// other returns another program on the same nodes.
func (c *cluster) other() *Backend {
	c.Helper()
	var backends []driver.Backend
	for _, n := range c.nodes {
		backends = append(backends, n.member)
	}
	return must(c.T, backends, nil)
}

func (c *cluster) claim() driver.Claim {
	c.owners++
	owner := fmt.Sprint("client:", c.owners)
	return driver.Claim{Name: "job", Owner: owner, TTL: ttl, Count: 1, Tokens: 1, Note: "note of " + owner}
}

// change changes the faults of some members, or of all.
func (c *cluster) change(fn func(*member), nodes ...int) {
	for i, m := range c.members {
		if len(nodes) == 0 || slices.Contains(nodes, i) {
			m.change(fn)
		}
	}
}

// holdAt tries a claim at some members, which must grant it.
func (c *cluster) holdAt(claim driver.Claim, nodes ...int) {
	c.Helper()
	for _, i := range nodes {
		if out, err := c.members[i].store.Try(c.Context(), claim); err != nil || !out.Granted {
			c.Fatalf("Try(%s) at node %d: got %+v, %v, want a grant", claim.Owner, i+1, out, err)
		}
	}
}

// held returns a claim that all members have granted.
func (c *cluster) held() driver.Claim {
	c.Helper()
	claim := c.claim()
	c.mustGrant(c.Backend, claim)
	synctest.Wait()
	return claim
}

func (c *cluster) mustGrant(b *Backend, claim driver.Claim) driver.Outcome {
	c.Helper()
	out, err := b.Try(c.Context(), claim)
	if err != nil || !out.Granted {
		c.Fatalf("Try(%s): got %+v, %v, want a grant", claim.Owner, out, err)
	}
	return out
}

func (c *cluster) mustRefuse(b *Backend, claim driver.Claim) driver.Outcome {
	c.Helper()
	out, err := b.Try(c.Context(), claim)
	if err != nil || out.Granted {
		c.Fatalf("Try(%s): got %+v, %v, want a refusal", claim.Owner, out, err)
	}
	return out
}

func (c *cluster) mustFail(b *Backend, claim driver.Claim, want error) error {
	c.Helper()
	out, err := b.Try(c.Context(), claim)
	if err == nil || out.Granted || want != nil && !errors.Is(err, want) {
		c.Fatalf("Try(%s): got %+v, %v, want error %v", claim.Owner, out, err, want)
	}
	return err
}

func (c *cluster) renew(b *Backend, claim driver.Claim) driver.Renewal {
	c.Helper()
	rs, err := b.Renew(c.Context(), []driver.Claim{claim})
	if err != nil || len(rs) != 1 {
		c.Fatalf("Renew: got %v, %v, want one answer", rs, err)
	}
	return rs[0]
}

func (c *cluster) mustRenew(b *Backend, claim driver.Claim) time.Duration {
	c.Helper()
	r := c.renew(b, claim)
	if r.Err != nil {
		c.Fatalf("Renew: got %v, want nil", r.Err)
	}
	return r.ValidFor
}

func (c *cluster) mustRelease(b *Backend, claim driver.Claim) {
	c.Helper()
	if err := b.Release(c.Context(), claim); err != nil {
		c.Fatalf("Release: got %v, want nil", err)
	}
}

// drain waits for the background work of b.
func (c *cluster) drain(b driver.Drainer) {
	c.Helper()
	if err := b.Drain(context.Background()); err != nil {
		c.Fatal(err)
	}
}

// holders returns how many members hold the name.
func (c *cluster) holders() int {
	c.Helper()
	n := 0
	for _, m := range c.members {
		m.mu.Lock()
		store := m.store
		m.mu.Unlock()
		records, err := store.Get(context.Background(), "job")
		if err != nil {
			c.Fatal(err)
		}
		n += records[0].Holders
	}
	return n
}

// wantHolders fails unless want members hold the name.
func (c *cluster) wantHolders(want int) {
	c.Helper()
	if n := c.holders(); n != want {
		c.Fatalf("%d nodes hold the name, want %d", n, want)
	}
}

func hole(m *member)   { m.hole = true }
func deaf(m *member)   { m.deaf = true }
func panics(m *member) { m.panics = true }
func slow(m *member)   { m.latency = 300 * time.Millisecond }
func healed(m *member) { m.hole, m.deaf, m.panics, m.latency, m.refuse = false, false, false, 0, nil }
