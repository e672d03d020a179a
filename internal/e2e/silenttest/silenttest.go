// Package silenttest has every connection of a client fall silent, whatever the store is:
// a device between forgets it, and neither side is notified. New connections work.
// Package storestest runs it over a real server of each store, with the default pool of its
// client.
package silenttest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Store is a store with a real server.
type Store struct {
	Addr string        // of the server, "host:port"
	TTL  time.Duration // of the locks in the short form; 0 means six seconds

	// Open returns a Backend with a client of its own, which reaches the server at addr.
	// Both end with t. Of a store with sessions theirs have the TTL.
	Open func(t *testing.T, addr string, ttl time.Duration) driver.Backend
}

// round is one client with its locks.
type round struct {
	locks int
	ttl   time.Duration
	pause time.Duration // between the first time that connections are forgotten and the second
}

// Run has a client hold locks, and its connections forgotten twice: the second time while
// it recovers from the first, and in the long form also after that. Every lock is kept.
func (s Store) Run(t *testing.T) {
	rounds := []round{{locks: 16, ttl: cmp.Or(s.TTL, 6*time.Second), pause: 700 * time.Millisecond}}
	if manytest.Full() {
		rounds = nil
		for _, n := range []int{3, 16, 50} {
			for _, pause := range []time.Duration{700 * time.Millisecond, 3 * time.Second, 10 * time.Second} {
				rounds = append(rounds, round{n, 9 * time.Second, pause})
			}
		}
	}
	for _, r := range rounds {
		t.Run(fmt.Sprintf("%d locks, again after %v", r.locks, r.pause), func(t *testing.T) {
			t.Parallel()
			s.run(t, r)
		})
	}
}

func (s Store) run(t *testing.T, r round) {
	proxy, err := faultproxy.RunRaw(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close() // before the client, which would wait for silent connections
	l := holdfast.New(s.Open(t, proxy.Addr(), r.ttl), &holdfast.Options{TTL: r.ttl})
	name := func(i int) string { return fmt.Sprintf("silent-%p-%d", l, i) }
	held := make([]*holdfast.Lock, r.locks)
	manytest.Do(r.locks, func(i int) { held[i] = must.Lock(t, l, name(i)) })
	// Calls at the same time fill the pool.
	fill := func() {
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), r.ttl/9)
		defer cancel()
		for i := range 8 {
			wg.Go(func() {
				if k, err := l.TryLock(ctx, name(1000+i)); err == nil {
					_ = k.Unlock()
				}
			})
		}
		wg.Wait()
	}
	fill()
	first := proxy.ForgetAll()
	time.Sleep(r.pause)
	second := proxy.ForgetAll()
	kept := renewed(held, r.ttl, time.Now())
	t.Logf("%d and %d connections were forgotten, %d of %d locks are kept", first, second, kept, r.locks)
	if first == 0 {
		t.Error("no connection was forgotten: nothing is tested")
	}
	for _, k := range held {
		if err := k.Err(); err != nil {
			t.Errorf("%v", err)
			break
		}
	}
	proxy.CutAll() // every side is notified at last
	manytest.Do(r.locks, func(i int) { _ = held[i].Unlock() })
	must.Drain(t, l)
}

// renewed waits until each lock is renewed after a moment, or lost, and returns how many
// are kept.
func renewed(held []*holdfast.Lock, ttl time.Duration, after time.Time) (kept int) {
	for _, k := range held {
		for k.Err() == nil && time.Now().Add(k.Remaining()).Before(after.Add(ttl*9/10)) {
			time.Sleep(10 * time.Millisecond)
		}
		if k.Err() == nil {
			kept++
		}
	}
	return kept
}
