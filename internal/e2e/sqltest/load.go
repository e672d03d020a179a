//go:build unix

package sqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Load has many clients wait for one name of a database, and counts what that costs.
type Load struct {
	Open     func() driver.Backend            // with a pool of its own that has no limit
	Server   func() (statements, numbers int) // so far: statements, and numbers of transactions that were drawn
	Clients  func() (connections, busy int)   // of the Backends, at the server
	Stranger func(ctx context.Context) error  // connects, and queries
}

// Bounds are those of a Load.
type Bounds struct {
	Statements, Numbers int // a second, while everybody waits
	Connections         int // at any time
}

// LoadEnv names the environment variable that makes loads as large as docs/stores.md has
// them, if it is "full".
const LoadEnv = "HOLDFAST_LOAD"

// Full reports whether loads are to be as large as docs/stores.md has them.
func Full() bool { return os.Getenv(LoadEnv) == "full" }

const (
	loadTTL   = 6 * time.Second
	loadLate  = loadTTL / 4 // a machine that stands still for so long may cost the lock
	loadPools = 4           // as many processes as there are Backends
	loadFor   = 3 * time.Second
)

// Run has so many clients wait in four pools, and so many other calls give up at once, some
// of the same name. It checks that the holder keeps its lock, that strangers are served
// within a second, and that nothing is left at the end.
func (l *Load) Run(t *testing.T, waiters, gaveUp int, most Bounds) {
	machine := await.NewWatch(t)
	holder := holdfast.New(l.Open(), &holdfast.Options{TTL: loadTTL})
	lock := must.Lock(t, holder, "job")
	backends := make([]driver.Backend, loadPools)
	for i := range backends {
		backends[i] = l.Open()
	}
	var waiting atomic.Int32
	options := &holdfast.Options{TTL: loadTTL, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventWait {
			waiting.Add(1)
		}
	}}
	watch := l.watch(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	var lockers []*holdfast.Locker
	for i := range waiters {
		w := holdfast.New(backends[i%loadPools], options)
		lockers = append(lockers, w)
		clients.Go(func() {
			if k, err := w.Lock(ctx, "job"); err == nil {
				t.Error("a waiter got a lock that is held")
				_ = k.Unlock()
			}
		})
	}
	await.Until(t, time.Minute, "everybody waits", func() bool { return int(waiting.Load()) == waiters })
	time.Sleep(loadTTL / 3) // those without a place have asked again
	statements, numbers := l.Server()
	time.Sleep(loadFor) // it is the load of a time that is measured
	s, n := l.Server()
	perSecond := Bounds{Statements: (s - statements) / int(loadFor/time.Second), Numbers: (n - numbers) / int(loadFor/time.Second)}
	lockers = append(lockers, giveUp(t, backends, gaveUp)...)
	cancel()
	clients.Wait()
	for _, w := range lockers {
		must.Drain(t, w)
	}
	perSecond.Connections = watch()
	t.Logf("%d waiters, %d calls given up: %+v at most", waiters, gaveUp, perSecond)
	if perSecond.Statements > most.Statements || perSecond.Numbers > most.Numbers || perSecond.Connections > most.Connections {
		t.Errorf("%d waiters: got %+v a second, want at most %+v", waiters, perSecond, most)
	}
	if err := errors.Join(lock.Err(), lock.Unlock()); err != nil && machine.Late() < loadLate {
		t.Errorf("the holder: %v", err)
	}
	must.Drain(t, holder)
	await.Until(t, 5*time.Second, "no statement is left", func() bool {
		_, busy := l.Clients()
		return busy == 0
	})
	again := must.Lock(t, holder, "job") // nothing of the others is left
	must.Unlock(t, again)
}

// giveUp has so many calls end within a round trip, half of them of the held name.
func giveUp(t *testing.T, backends []driver.Backend, calls int) (lockers []*holdfast.Locker) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range calls {
		l := holdfast.New(backends[i%len(backends)], &holdfast.Options{TTL: loadTTL})
		lockers = append(lockers, l)
		name := "job"
		if i%2 == 0 {
			name = fmt.Sprint("job ", i)
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if k, err := l.Lock(ctx, name); err == nil {
				must.Unlock(t, k)
			}
		})
	}
	wg.Wait()
	return lockers
}

// watch has a stranger come five times a second, who must be served within a second of what
// the machine gives, until stop is called, which returns how many connections clients had
// at most.
func (l *Load) watch(t *testing.T) (stop func() (connections int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	most, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			began, err := time.Now(), error(nil)
			starved := await.Starved(func() { err = l.Stranger(ctx) })
			if took := time.Since(began) - starved; ctx.Err() == nil && (err != nil || took > time.Second) {
				t.Errorf("another program connects and queries: got error %v after %v", err, took)
			}
			connections, _ := l.Clients()
			most = max(most, connections)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() int {
		cancel()
		<-done
		return most
	}
}
