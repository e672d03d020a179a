package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Package quorum over real servers.

// fleet is some servers behind proxies.
type fleet struct {
	*testing.T
	adapter string
	servers []*redistest.Server
	proxies []*faultproxy.Proxy
}

func newFleet(t *testing.T, adapter string, n int) *fleet {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	f := &fleet{T: t, adapter: adapter}
	for range n {
		server := redistest.Start(t)
		f.servers = append(f.servers, server)
		f.proxies = append(f.proxies, faultproxy.Start(t, server.Addr()))
	}
	return f
}

// having returns how many servers have the key.
func (f *fleet) having(key string) (n int64) {
	for _, server := range f.servers {
		n += server.Int("EXISTS", key)
	}
	return n
}

// quorum returns one program's view of the fleet.
func (f *fleet) quorum(opts *quorum.Options) *quorum.Backend {
	f.Helper()
	var members []driver.Backend
	for _, p := range f.proxies {
		members = append(members, redishold.New(f.conn(p.Addr()), nil))
	}
	b, err := quorum.New(members, opts)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Drain(ctx); err != nil {
			f.Error(err)
		}
	})
	return b
}

// locker returns a Locker on the fleet that finishes its clean-up before the
// connections are closed.
func (f *fleet) locker(opts *quorum.Options, ttl time.Duration) *holdfast.Locker {
	f.Helper()
	l := holdfast.New(f.quorum(opts), &holdfast.Options{TTL: ttl})
	f.Cleanup(func() { must.Drain(f, l) })
	return l
}

// conn opens a connection of the adapter under test to addr.
func (f *fleet) conn(addr string) redishold.Conn {
	f.Helper()
	if f.adapter == "rueidis" {
		conn, err := rueidisconn.Open(await.Context(f, 10*time.Second), "redis://"+addr, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(conn.Close)
		return conn
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	f.Cleanup(func() { _ = client.Close() })
	return goredisconn.New(client)
}

func TestQuorumConformance(t *testing.T) {
	b := newFleet(t, "rueidis", 3).quorum(&quorum.Options{TrustRestarts: true})
	t.Run("Suite", func(t *testing.T) { // its subtests are parallel, and done before the servers stop
		drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
	})
}

// pairs takes and releases a lock many times, and returns the medians.
func pairs(t *testing.T, l *holdfast.Locker) (lock, unlock time.Duration) {
	t.Helper()
	var locks, unlocks []time.Duration
	for range 21 {
		start := time.Now()
		held, err := l.Lock(await.Context(t, 10*time.Second), "job")
		if err != nil {
			t.Fatal(err)
		}
		locked := time.Now()
		if err := held.Unlock(); err != nil {
			t.Fatal(err)
		}
		locks, unlocks = append(locks, locked.Sub(start)), append(unlocks, time.Since(locked))
	}
	slices.Sort(locks)
	slices.Sort(unlocks)
	return locks[len(locks)/2], unlocks[len(unlocks)/2]
}

func TestQuorumWithABlackHole(t *testing.T) {
	for _, adapter := range []string{"rueidis", "goredis"} {
		for n, down := range map[int]int{3: 1, 5: 2} {
			t.Run(fmt.Sprintf("%s/%d of %d", adapter, down, n), func(t *testing.T) {
				f := newFleet(t, adapter, n)
				l := f.locker(&quorum.Options{MaxTTL: 2 * time.Second}, 2*time.Second)
				lock, unlock := pairs(t, l) // the first waits until the servers are old enough
				for i := range down {
					f.proxies[i].Blackhole(true)
				}
				holeLock, holeUnlock := pairs(t, l)
				t.Logf("healthy: Lock %v, Unlock %v; black hole: Lock %v, Unlock %v", lock, unlock, holeLock, holeUnlock)
				if most := 2*lock + 50*time.Millisecond; holeLock > most {
					t.Errorf("Lock: got %v, want at most %v", holeLock, most)
				}
				if most := 2*unlock + 50*time.Millisecond; holeUnlock > most {
					t.Errorf("Unlock: got %v, want at most %v", holeUnlock, most)
				}
				for i := range down {
					f.proxies[i].Blackhole(false)
				}
			})
		}
	}
}

// TestQuorumRollingRestarts restarts one server after the other, empty, while
// programs compete for one name and another is held all the time.
func TestQuorumRollingRestarts(t *testing.T) {
	f := newFleet(t, "rueidis", 5)
	// The lease is long, because a busy machine stands still for a part of it: with 2 s, at a load
	// of 25 on two cores, the lock was lost without a fault of a server in one of two runs.
	const name, lease = "held all the time", 5 * time.Second
	opts := &quorum.Options{MaxTTL: lease}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var renewals atomic.Int64
	l := holdfast.New(f.quorum(opts), &holdfast.Options{TTL: lease, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventRenew && e.Err == nil {
			renewals.Add(1)
		}
	}})
	defer must.Drain(t, l)
	long, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var inside, entries atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		l := f.locker(opts, lease)
		wg.Go(func() {
			for working.Err() == nil {
				lock, err := l.Lock(working, "job")
				if err != nil {
					if working.Err() == nil {
						t.Errorf("Lock: %v", err)
					}
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders believe in the lock", n)
				}
				entries.Add(1)
				select {
				case <-time.After(20 * time.Millisecond):
				case <-lock.Context(working).Done():
				}
				inside.Add(-1)
				_ = lock.Unlock() // a loss is allowed, two holders are not
			}
		})
	}
	for round := range 4 {
		// A renewal gives the lock to a server that lost it. That server counts once
		// another renewal has found a majority without it.
		held := func(cond bool) bool {
			if err := long.Err(); err != nil {
				t.Fatalf("round %d: the lock that was held: %v", round+1, err)
			}
			return cond
		}
		await.Until(t, 30*time.Second, "all servers have the lock that is held", func() bool { return held(f.having(name) == 5) })
		proved := renewals.Load() + 2 // one may have been under way
		await.Until(t, 30*time.Second, "two renewals", func() bool { return held(renewals.Load() >= proved) })
		f.servers[round%5].Kill()
		f.servers[round%5].Restart()
		before := entries.Load()
		await.Until(t, 20*time.Second, fmt.Sprintf("somebody gets the lock after restart %d", round+1), func() bool { return entries.Load() > before+1 })
	}
	stop()
	wg.Wait()
	if err := long.Err(); err != nil {
		t.Errorf("the lock that was held: %v", err)
	}
	if err := long.Unlock(); err != nil {
		t.Errorf("its Unlock: %v", err)
	}
}

func TestQuorumNamesARestartedServer(t *testing.T) {
	f := newFleet(t, "goredis", 3)
	l := f.locker(&quorum.Options{MaxTTL: 30 * time.Second}, time.Second)
	_, err := l.TryLock(await.Context(t, 10*time.Second), "job")
	if err == nil || errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("got %v, want an error: the servers were just started", err)
	}
	t.Log(err)
}

func TestQuorumSameServerTwice(t *testing.T) {
	f := newFleet(t, "rueidis", 2)
	f.proxies = append(f.proxies, faultproxy.Start(t, f.servers[0].Addr()))
	b := f.quorum(nil)
	_, err := b.Try(await.Context(t, 10*time.Second), driver.Claim{Name: "job", Client: "c", Owner: "c:1", Seq: 1, TTL: 20 * time.Second, Count: 1, Tokens: 1})
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) {
		t.Fatalf("got %v, want ErrRefused before anything was sent", err)
	}
	for _, server := range f.servers {
		if keys := server.Keys(); len(keys) != 0 {
			t.Errorf("got keys %q, want none", keys)
		}
	}
}
