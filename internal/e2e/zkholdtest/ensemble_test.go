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

// long is a session that outlives an election, and a client that first turns to the server
// that hangs: it waits there for two thirds of a session.
const long = 15 * time.Second

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
	await.Until(t, timeout, "there is a leader", func() bool { return slices.ContainsFunc(servers, (*zktest.Server).Leads) })
	i := slices.IndexFunc(servers, (*zktest.Server).Leads)
	servers[0], servers[i] = servers[i], servers[0]
	return servers
}

// queue has clients wait for the name of t, one after the other. servers[2] is asked for
// their nodes.
func queue(t *testing.T, servers []*zktest.Server, lockers ...*holdfast.Locker) []*sessiontest.Waiter {
	t.Helper()
	ctx := await.Context(t, 2*time.Minute)
	var waiters []*sessiontest.Waiter
	client := servers[2].Client(t)
	for _, l := range lockers {
		waiters = append(waiters, sessiontest.Wait(ctx, t, l, name(t)))
		await.Until(t, timeout, "one more waits", func() bool {
			children, _, err := client.Children("/" + name(t))
			return err == nil && len(children) == 1+len(waiters)
		})
	}
	return waiters
}

// keeps fails t if a waiter is granted within d, while lock is held.
func keeps(t *testing.T, d time.Duration, lock *holdfast.Lock, waiters []*sessiontest.Waiter) {
	t.Helper()
	began := time.Now()
	if await.Eventually(d, func() bool { return slices.ContainsFunc(waiters, (*sessiontest.Waiter).Has) }) {
		t.Fatalf("a waiter was granted after %v; the holder's lock has the error %v", time.Since(began), lock.Err())
	}
}

// release fails t unless the lock is held until now, and the waiters are granted in their
// order.
func release(t *testing.T, lock *holdfast.Lock, waiters []*sessiontest.Waiter) {
	t.Helper()
	if err := lock.Err(); err != nil {
		t.Errorf("got error %v, want that the lock is held", err)
	}
	must.Unlock(t, lock)
	if !sessiontest.Serve(t, lock.Token(), waiters...) {
		t.Error("the waiters were not granted in their order")
	}
}

// An ensemble that loses its leader keeps locks and places in the queue, and tokens rise.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	lock := must.Lock(t, on(t, servers...), name(t))
	waiters := queue(t, servers, on(t, servers...), on(t, servers...))
	servers[0].Kill()
	keeps(t, long+long/4, lock, waiters)
	release(t, lock, waiters)
}

// An ensemble whose leader stands still for longer than a session, and comes back, keeps
// locks and places in the queue, and tokens rise.
func TestLeaderStandsStill(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	lock := must.Lock(t, on(t, servers...), name(t))
	waiters := queue(t, servers, on(t, servers...), on(t, servers...))
	if err := servers[0].Pause(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, timeout, "another one leads", func() bool { return slices.ContainsFunc(servers[1:], (*zktest.Server).Leads) })
	keeps(t, long+long/4, lock, waiters)
	if err := servers[0].Resume(); err != nil {
		t.Fatal(err)
	}
	keeps(t, long/2, lock, waiters)
	release(t, lock, waiters)
}

// A client leaves a server that hangs for another one, before its locks are lost. A waiter
// that uses the other servers waits until they are released.
func TestFollowerStandsStill(t *testing.T) {
	t.Parallel()
	servers := ensemble(t)
	// The session is opened at the follower, and another one is known.
	var at atomic.Pointer[zktest.Server]
	at.Store(servers[1])
	b := zkhold.New([]string{servers[1].Addr(), servers[2].Addr()}, &zkhold.Options{TTL: long, Dial: dialOnly(&at)})
	t.Cleanup(b.Close)
	lock := must.Lock(t, sessiontest.LockerOf(t, b), name(t))
	waiters := queue(t, servers, on(t, servers[0], servers[2]))
	if err := servers[1].Pause(); err != nil {
		t.Fatal(err)
	}
	at.Store(nil)
	keeps(t, long+long/2, lock, waiters)
	release(t, lock, waiters)
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
