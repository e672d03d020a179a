package matrix

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/quorum"
)

const (
	// patience is the timeout of what must happen some time.
	patience = 20 * time.Second
	// call is what one call may take.
	call = 150 * time.Millisecond
)

// scenario is one run of a cell.
type scenario struct {
	testing.TB
	cell
	*world
	adapter  string
	name     string // of the lock: this cell's alone
	ttl      time.Duration
	distrust *quorum.Options // nil: restarts of a quorum's servers are trusted

	history history
	clients []*client
	skipped bool
	group   *group
	round   int

	forgotten time.Duration // for how long a lock may stay whose unlock the fault forgot
}

// ttl is long enough for renewals on a busy machine, and for WAIT.
func (d deployment) ttl() time.Duration {
	if k := d.store(); k != nil {
		return k.Session(storeTTL)
	}
	switch d {
	case strict:
		return 2 * time.Second
	case sentinel, cluster:
		return 1500 * time.Millisecond
	default:
		return 1200 * time.Millisecond
	}
}

// finish heals the deployment and judges the cell.
func (s *scenario) finish() {
	s.group.end(s.round, func() {
		if err := s.deployed.Heal(); err != nil {
			s.Errorf("Heal: %v", err)
		}
	})
	for _, c := range s.clients {
		c.drain()
	}
	if s.Failed() || s.skipped {
		return
	}
	s.history.judge(s.TB, s.cell)
	if s.kind == permit || s.kind == plain || s.kind == latch {
		s.forget() // counters stay, as in Redisson
	}
	s.wantGone(max(time.Second, s.forgotten))
	s.wantTTLs()
}

// skip ends a cell that cannot run here.
func (s *scenario) skip(why string) {
	s.skipped = true
	s.TB.(*attempt).skip(why)
}

// within fails the test if something took longer than limit, net of the longest
// time for which the machine left this process without a processor.
func (s *scenario) within(what string, got, limit time.Duration) {
	s.Helper()
	if late := s.TB.(*attempt).clock.late(); got > limit+late {
		s.Errorf("%s: took %v, want at most %v; the machine stood still for %v", what, got, limit, late)
	}
}

// waited notes that a waiter had to wait for longer, if it did: for at least as
// long as nobody does whom the fault spares.
func (s *scenario) waited(got, least time.Duration) {
	s.Helper()
	if got < least {
		s.Logf("the waiter got the lock after %v", got)
		return
	}
	s.history.note('W')
}

// client is a program, with a proxy of its own in front of every server.
type client struct {
	*scenario
	mesh   *faultproxy.Mesh // nil: nothing in between
	store  *store
	locker *holdfast.Locker

	waiting   atomic.Int32 // calls that have begun to wait
	unrenewed atomic.Int32 // renewals that failed
	silent    atomic.Int32 // of these, those without an answer
}

// observe counts what a cell waits for.
func (c *client) observe(_ context.Context, e holdfast.Event) {
	switch {
	case e.Type == holdfast.EventWait:
		c.waiting.Add(1)
	case e.Type == holdfast.EventRenew && e.Err != nil:
		c.unrenewed.Add(1)
		if errors.Is(e.Err, context.DeadlineExceeded) {
			c.silent.Add(1)
		}
	}
}

// client starts a program that faults can be put in front of. It has taken and
// released the lock, so that connections, probes and registration are there.
func (s *scenario) client() *client {
	s.Helper()
	return s.clientAs("")
}

// clientAs is client for a user whose password is its name.
func (s *scenario) clientAs(user string) *client {
	s.Helper()
	c := s.dial(s.startMesh(), user)
	c.warm()
	return c
}

// other starts a program without anything in between.
func (s *scenario) other() *client {
	s.Helper()
	c := s.dial(nil, "")
	c.warm()
	return c
}

func (s *scenario) dial(mesh *faultproxy.Mesh, user string) *client {
	s.Helper()
	return s.dialAs(mesh, func(t *dial.Target) {
		if user != "" {
			t.Username, t.Password = user, user
		}
	})
}

// dialAs is dial with targets that are changed.
func (s *scenario) dialAs(mesh *faultproxy.Mesh, change func(*dial.Target)) *client {
	s.Helper()
	way := s.route(s.adapter, mesh)
	for i := range way.Targets {
		change(&way.Targets[i])
	}
	return s.connect(way, mesh)
}

func (s *scenario) connect(way route, mesh *faultproxy.Mesh) *client {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	st, err := way.open(ctx, s.ttl, s.distrust)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(st.shut)
	c := &client{scenario: s, mesh: mesh, store: st}
	c.locker = holdfast.New(st.Backend, &holdfast.Options{TTL: s.ttl, Observe: c.observe})
	s.clients = append(s.clients, c)
	return c
}

// drain lets a program finish its clean-up before its connections are closed.
func (c *client) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.locker.Drain(ctx); err != nil {
		c.Errorf("Drain: %v", err)
	}
	c.settle(ctx)
}

// settle lets a quorum hear from all of its servers what a majority has decided.
func (c *client) settle(ctx context.Context) {
	if d, ok := c.store.Backend.(interface{ Drain(context.Context) error }); ok {
		if err := d.Drain(ctx); err != nil {
			c.Errorf("Drain: %v", err)
		}
	}
}

func (c *client) warm() {
	c.Helper()
	if c.kind == latch {
		return
	}
	kinds := slices.Compact([]kind{c.kind, c.kind.Rival()})
	for _, k := range slices.Concat(kinds, kinds) { // twice: a client that has been granted a name sends other statements
		lock, err := c.ofKind(c.bounded(), k)
		if err != nil {
			c.Fatalf("before the fault: %v", err)
		}
		if err := lock.unlock(); err != nil {
			c.Fatalf("before the fault: Unlock: %v", err)
		}
	}
	c.forgetPermits()
	c.settle(c.bounded())
}

// bounded returns a context that ends in time.
func (s *scenario) bounded() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	s.Cleanup(cancel)
	return ctx
}

// lasting returns a context that ends after d.
func (s *scenario) lasting(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	s.Cleanup(cancel)
	return ctx
}

// rules is one fault in front of every server.
type rules []*faultproxy.Rule

// on adds a fault in front of every server of the client.
func (c *client) on(match faultproxy.Match, action func() faultproxy.Action, when ...faultproxy.When) rules {
	var rs rules
	for _, p := range c.mesh.Proxies() {
		rs = append(rs, p.On(match, action(), when...))
	}
	return rs
}

func (rs rules) count() int {
	n := 0
	for _, r := range rs {
		n += r.Count()
	}
	return n
}

func (rs rules) answered() int {
	n := 0
	for _, r := range rs {
		n += r.Answered()
	}
	return n
}

func (rs rules) release() {
	for _, r := range rs {
		r.Release()
	}
}

// wait waits until the rules have fired n times together.
func (s *scenario) wait(rs rules, n int) {
	s.Helper()
	if !s.until(patience, func() bool { return rs.count() >= n }) {
		s.Fatalf("the fault happened %d times, want %d", rs.count(), n)
	}
}

// renewed waits until k has been renewed n times, as its client knows it.
func (c *client) renewed(k *grip, n int) {
	c.Helper()
	last, times := k.remaining(), 0
	c.until(patience, func() bool {
		left := k.remaining()
		if left > last {
			times++
		}
		last = left
		return times >= n || k.err() != nil
	})
	if times < n || k.err() != nil {
		c.Fatalf("it was renewed %d times, want %d; the lock: %v", times, n, k.err())
	}
}

// answered waits until n renewals of k were answered, by all servers together. It
// counts answers, not requests: one may not have been run yet. Nor was one run by a
// server that answers that it does not know the script.
func (c *client) answered(k *grip, n int) {
	c.Helper()
	refused := says("-")
	answered := c.onReply(c.script(c.scripts().Renew), func(reply string) bool { return !refused(reply) })
	c.until(patience, func() bool { return int(answered.Load()) >= n || k.err() != nil })
	if got := int(answered.Load()); got < n || k.err() != nil {
		c.Fatalf("%d renewals were answered, want %d; the lock: %v", got, n, k.err())
	}
}

// until polls until cond holds or d has passed.
func (s *scenario) until(d time.Duration, cond func() bool) bool {
	return await.Eventually(d, cond)
}

// script matches runs of the engine's scripts, each also for several locks.
func (s *scenario) script(names ...string) faultproxy.Match {
	s.Helper()
	var any []faultproxy.Match
	for _, name := range names {
		any = append(any, faultproxy.Script(redistest.ScriptSHA(s, name)))
		if name == "acquire" || name == "renew" || name == "release" {
			any = append(any, faultproxy.Script(redistest.ScriptSHA(s, name+"_all")))
		}
	}
	return func(cmd []string) bool {
		return slices.ContainsFunc(any, func(m faultproxy.Match) bool { return m(cmd) })
	}
}

// grip is a lock that a program holds, as far as it knows.
type grip struct {
	*scenario
	belief *belief
	number uint64          // the fencing token
	ctx    context.Context // ends with the lock; nil where it cannot tell
	err    func() error
	give   func() error
	again  func() error // enters it once more, and leaves; nil unless it is reentrant

	remaining func() time.Duration // of a single lock

	notified atomic.Int64 // when ctx ended, in ns since 1970
	ended    chan struct{}
}

// take takes the lock and fails the test if it cannot be had.
func (c *client) take() *grip {
	c.Helper()
	k, err := c.try(c.bounded())
	if err != nil {
		c.Fatalf("acquire: %v", err)
	}
	return k
}

// try takes the lock. An error that is not ErrBusy is an outcome.
func (c *client) try(ctx context.Context) (*grip, error) {
	k, err := c.ofKind(ctx, c.kind)
	if err != nil {
		if !errors.Is(err, holdfast.ErrBusy) {
			c.history.note('E')
		}
		return nil, err
	}
	return k.believed(), nil
}

// takeRival takes what the lock keeps out.
func (c *client) takeRival() *grip {
	c.Helper()
	k, err := c.ofKind(c.bounded(), c.kind.Rival())
	if err != nil {
		c.Fatalf("acquire by another: %v", err)
	}
	return k.believed()
}

// believed begins the belief in a lock.
func (k *grip) believed() *grip {
	k.belief = k.history.begin(k.number, time.Now())
	if k.ctx == nil {
		return k
	}
	context.AfterFunc(k.ctx, func() {
		now := time.Now()
		if errors.Is(context.Cause(k.ctx), holdfast.ErrLost) {
			k.history.note('L')
		}
		k.history.end(k.belief, now)
		k.notified.Store(now.UnixNano())
		close(k.ended)
	})
	return k
}

// unlock ends the belief and releases the lock.
func (k *grip) unlock() error {
	if k.belief != nil {
		k.history.end(k.belief, time.Now())
	}
	return k.give()
}

// mustUnlock is unlock of a lock that is still held.
func (k *grip) mustUnlock() {
	k.Helper()
	if err := k.unlock(); err != nil {
		k.Errorf("Unlock: %v", err)
	}
}

// mustBeHeld fails the test if the lock is lost.
func (k *grip) mustBeHeld() {
	k.Helper()
	if err := k.err(); err != nil {
		k.Fatalf("lost: %v", err)
	}
}

// stays fails the test if the lock is lost within d.
func (k *grip) stays(d time.Duration) {
	k.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-k.ended:
		k.Fatalf("lost: %v", context.Cause(k.ctx))
	case <-timer.C:
		k.mustBeHeld()
	}
}

// awaitLoss waits until the holder was notified of its loss.
func (k *grip) awaitLoss() {
	k.Helper()
	select {
	case <-k.ended:
	case <-time.After(patience):
		k.Fatalf("not notified of the loss: %v", k.err())
	}
}

// lost waits until the holder was notified of its loss, which has to be at most bound later
// than since.
func (k *grip) lost(since time.Time, bound time.Duration) {
	k.Helper()
	k.awaitLoss()
	cause := context.Cause(k.ctx)
	if !errors.Is(cause, holdfast.ErrLost) {
		k.Errorf("the context ended with %v, want ErrLost", cause)
	}
	k.within("notified of the loss", time.Unix(0, k.notified.Load()).Sub(since), bound)
	if err := k.unlock(); !errors.Is(err, holdfast.ErrLost) {
		k.Errorf("Unlock: got %v, want ErrLost", err)
	}
}

// waiting is a program that waits for the lock.
type waiting struct {
	*scenario
	got chan *grip
	err error
}

// queue lets the client wait for the lock, or for what it keeps out.
func (c *client) queue(k kind) *waiting {
	w := &waiting{scenario: c.scenario, got: make(chan *grip, 1)}
	ctx := c.bounded()
	go func() {
		defer close(w.got)
		lock, err := c.ofKind(ctx, k)
		if err != nil {
			w.err = err
			return
		}
		w.got <- lock.believed()
	}()
	return w
}

// served returns the lock that was waited for.
func (w *waiting) served() *grip {
	w.Helper()
	k := <-w.got
	if k == nil {
		w.Fatalf("the waiter: %v", w.err)
	}
	return k
}

// keys returns the keys of the lock on the servers that decide about it, but not
// those that pass by themselves. Of another store they are the claims.
func (s *scenario) keys() []string {
	if s.server != nil {
		names, err := s.server.Left(s.name)
		if err != nil {
			return []string{err.Error()} // nobody knows that it is gone
		}
		return names
	}
	var all []string
	for _, server := range s.masters() {
		for _, key := range server.Keys() {
			if strings.Contains(key, s.name) && !redistest.Passing(key) {
				all = append(all, key)
			}
		}
	}
	return all
}

// marks returns the marks of owners that were given up.
func (s *scenario) marks() []string {
	var all []string
	for _, server := range s.keepers(s.name) {
		for _, key := range server.Keys() {
			if strings.HasPrefix(key, "holdfast:gone:") && strings.Contains(key, s.name) {
				all = append(all, key)
			}
		}
	}
	return all
}

// wantGone fails unless nothing of the lock is left within d.
func (s *scenario) wantGone(d time.Duration) {
	s.Helper()
	if s.until(d+call, func() bool { return len(s.keys()) == 0 }) {
		return
	}
	if keys := s.keys(); len(keys) != 0 {
		s.Errorf("after %v there is still %q", d, keys)
	}
}

// wantTTLs fails if anything but a counter would stay forever.
func (s *scenario) wantTTLs() {
	s.Helper()
	counter := func(key string) bool {
		return strings.HasPrefix(key, "holdfast:token:{") || !strings.Contains(key, s.name) && !strings.HasPrefix(key, "holdfast:")
	}
	for _, server := range s.masters() {
		if keys := server.KeysWithoutTTL(counter); len(keys) != 0 {
			breach(s.TB, "keys without a TTL: %q", keys)
		}
	}
}

// forget drops the counters of semaphores and latches.
func (s *scenario) forget() {
	for _, server := range s.keepers(s.name) {
		for _, key := range server.Keys() {
			if key == s.name || key == "{"+s.name+"}:timeout" {
				server.Do("DEL", key)
			}
		}
	}
}

func (c *client) forgetPermits() {
	if c.kind == permit {
		c.forget()
	}
}

// wantBusy fails unless the lock is refused to another now.
func (c *client) wantBusy() {
	c.Helper()
	c.wantBusyWithin(0)
}

// wantBusyWithin is wantBusy where there may be no answer for d.
func (c *client) wantBusyWithin(d time.Duration) {
	c.Helper()
	ctx, from := c.bounded(), time.Now()
	for {
		k, err := c.ofKindNow(ctx, c.kind.Rival())
		switch {
		case err == nil:
			_ = k.give()
			c.Errorf("another got the lock, want ErrBusy")
			return
		case errors.Is(err, holdfast.ErrBusy):
			return
		case time.Since(from) > d:
			c.Errorf("another asked for the lock: %v, want ErrBusy", err)
			return
		}
	}
}
