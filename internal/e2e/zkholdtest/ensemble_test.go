package zkholdtest

import (
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// long is a session that outlives an election.
const long = 10 * time.Second

// on returns a Locker that knows these servers.
func on(t *testing.T, servers ...*zktest.Server) *holdfast.Locker {
	t.Helper()
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	b := zkhold.New(addrs, &zkhold.Options{TTL: long})
	t.Cleanup(b.Close)
	return sessiontest.LockerOf(t, b)
}

// ensemble starts three servers, the leader first.
func ensemble(t *testing.T) []*zktest.Server {
	t.Helper()
	servers := zktest.StartEnsemble(t, 3)
	await.Until(t, patience, "there is a leader", func() bool { return slices.ContainsFunc(servers, (*zktest.Server).Leads) })
	i := slices.IndexFunc(servers, (*zktest.Server).Leads)
	servers[0], servers[i] = servers[i], servers[0]
	return servers
}

// An ensemble that loses its leader keeps locks and places in the queue, and tokens rise.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	holder, other := on(t, servers...), on(t, servers...)
	lock := must.Lock(t, holder, name(t))
	waited := make(chan *holdfast.Lock, 1)
	var granted atomic.Bool
	go func() {
		waiting, err := other.Lock(within(t), name(t))
		granted.Store(true)
		if err != nil {
			t.Error(err)
		}
		waited <- waiting
	}()
	await.Never(t, time.Second, "granted while the name is held", granted.Load)
	servers[0].Kill()
	await.Never(t, long/2, "granted while the name is held", granted.Load)
	if err := lock.Err(); err != nil {
		t.Errorf("got error %v, want that the lock is held", err)
	}
	must.Unlock(t, lock)
	next := <-waited
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	must.Unlock(t, next)
}

// An ensemble whose leader stands still for longer than a session, and comes back, keeps
// locks and places in the queue: the holder holds, or is notified before the next is granted.
func TestLeaderStandsStill(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	holder, other := on(t, servers...), on(t, servers...)
	lock := must.Lock(t, holder, name(t))
	waited := make(chan *holdfast.Lock, 1)
	var granted atomic.Bool
	go func() {
		waiting, err := other.Lock(await.Context(t, time.Minute), name(t))
		granted.Store(true)
		if err != nil {
			t.Error(err)
		}
		waited <- waiting
	}()
	await.Never(t, time.Second, "granted while the name is held", granted.Load)
	beside := func() bool { return granted.Load() && lock.Err() == nil }
	if err := servers[0].Pause(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, patience, "another one leads", func() bool { return slices.ContainsFunc(servers[1:], (*zktest.Server).Leads) })
	await.Never(t, long+long/4, "granted while the holder believes that it holds", beside)
	if err := servers[0].Resume(); err != nil {
		t.Fatal(err)
	}
	await.Never(t, long/2, "granted while the holder believes that it holds", beside)
	if err := lock.Unlock(); err != nil {
		t.Logf("lost: %v", err)
	}
	next := <-waited
	if next == nil {
		return
	}
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	must.Unlock(t, next)
}

// A client leaves a server that hangs for another one, before its locks are lost.
func TestFollowerStandsStill(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	// The session is opened at the follower, and another one is known.
	var at atomic.Pointer[zktest.Server]
	at.Store(servers[1])
	b := zkhold.New([]string{servers[1].Addr(), servers[2].Addr()}, &zkhold.Options{TTL: long, Dial: dialOnly(&at)})
	t.Cleanup(b.Close)
	lock := must.Lock(t, sessiontest.LockerOf(t, b), name(t))
	if err := servers[1].Pause(); err != nil {
		t.Fatal(err)
	}
	at.Store(nil)
	time.Sleep(long + long/2)
	if err := lock.Err(); err != nil {
		t.Errorf("got error %v, want that the lock is held over another server", err)
	}
	must.Unlock(t, lock)
	if err := servers[1].Resume(); err != nil {
		t.Fatal(err)
	}
}

// dialOnly returns a zk.Dialer that reaches one server only, or all if that is nil.
func dialOnly(at *atomic.Pointer[zktest.Server]) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		if s := at.Load(); s != nil && s.Addr() != address {
			return nil, errors.New("the test keeps the client from this server")
		}
		return net.DialTimeout(network, address, timeout)
	}
}
