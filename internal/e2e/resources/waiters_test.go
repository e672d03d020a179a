package resources

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

const (
	waiters = 1000

	idleTime       = 3 * time.Second
	idlePerWaiter  = 2.0 // scripts a second
	grantScripts   = 3   // for each grant
	goroutinesEach = 4   // of a waiter: the caller, and what asks the server for it
	wakeMedian     = 100 * time.Millisecond
)

// A thousand waiters on a thousand names listen on one connection to each node for each kind of
// channel, ask little while nothing happens, are all woken, and leave nothing.
func TestManyWaiters(t *testing.T) {
	for _, top := range []redistest.Topology{redistest.Standalone, redistest.Cluster} {
		for _, adapter := range dial.Adapters() {
			t.Run(string(top)+"/"+adapter, func(t *testing.T) {
				d := redistest.StartDeployment(t, top)
				c := &crowd{T: t, d: d, holder: start(t, adapter, d), waiter: start(t, adapter, d)}
				c.gather()
				c.idle()
				c.wake()
				c.leave()
			})
		}
	}
}

// crowd is a program that holds all the names, and one that waits for them.
type crowd struct {
	*testing.T
	d              *redistest.Deployment
	holder, waiter *program

	held []*holdfast.Lock
	got  []chan grant
	wg   sync.WaitGroup
}

// grant is what a waiter got, and when.
type grant struct {
	lock *holdfast.Lock
	err  error
	at   time.Time
}

// way returns how name number i is locked: a quarter of the names each are plain
// mutexes, fair ones, writers and semaphores of one permit.
func way(l *holdfast.Locker, i int) acquire {
	name := fmt.Sprintf("crowd:%d", i)
	switch i % 4 {
	case 1:
		return l.FairMutex(name).Lock
	case 2:
		return l.RWMutex(name).Write.Lock
	case 3:
		return l.Semaphore(name, 1).Acquire
	default:
		return l.Mutex(name).Lock
	}
}

// gather takes all names, and lets a waiter queue up at each.
func (c *crowd) gather() {
	c.Helper()
	before := runtime.NumGoroutine()
	for i := range waiters {
		lock, err := way(c.holder.redisson, i)(c.Context())
		if err != nil {
			c.Fatalf("name %d: %v", i, err)
		}
		c.held = append(c.held, lock)
		c.got = append(c.got, make(chan grant, 1))
	}
	for i, got := range c.got {
		c.wg.Go(func() {
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			lock, err := way(c.waiter.redisson, i)(ctx)
			got <- grant{lock, err, time.Now()}
		})
	}
	if !await.Eventually(20*time.Second, func() bool { return c.channels() >= waiters }) {
		c.Fatalf("%d channels are listened on, want %d", c.channels(), waiters)
	}
	if most := before + goroutinesEach*waiters; runtime.NumGoroutine() > most {
		c.Errorf("%d goroutines, want at most %d", runtime.NumGoroutine(), most)
	}
}

// channels returns on how many different names somebody listens.
func (c *crowd) channels() int {
	names := map[string]bool{}
	for _, s := range c.d.Servers() {
		for _, name := range channels(s) {
			names[name] = true
		}
	}
	return len(names)
}

// scripts returns how many scripts all servers have run.
func (c *crowd) scripts() (n int64) {
	for _, s := range c.d.Masters() {
		stats := s.CommandStats()
		n += stats["evalsha"] + stats["eval"]
	}
	return n
}

// idle looks at what the crowd costs while nothing happens.
func (c *crowd) idle() {
	c.Helper()
	onClassic := 0
	for _, s := range c.d.Servers() {
		classic, sharded := listening(s)
		if onClassic += classic; sharded > 1 {
			c.Errorf("%s: %d connections listen on sharded channels, want one at most", s.Addr(), sharded)
		}
	}
	// The waiters have one at each master. On one more the holder listens, after a while, for what
	// ends its locks.
	if most := len(c.d.Masters()) + 1; onClassic > most {
		c.Errorf("%d connections listen on classic channels, want %d at most", onClassic, most)
	}
	before, began := c.scripts(), time.Now()
	time.Sleep(idleTime) // what is measured is that nothing happens
	rate := float64(c.scripts()-before) / time.Since(began).Seconds() / waiters
	if rate > idlePerWaiter {
		c.Errorf("%.2f scripts a second for each waiter, want at most %.0f", rate, idlePerWaiter)
	}
	c.Logf("%.2f scripts a second for each waiter", rate)
}

// wake gives the names back, one by one, and looks at when each waiter hears.
func (c *crowd) wake() {
	c.Helper()
	before, began := c.scripts(), time.Now()
	var took []time.Duration
	for i, lock := range c.held {
		released := time.Now()
		if err := lock.Unlock(); err != nil {
			c.Fatalf("name %d: %v", i, err)
		}
		select {
		case g := <-c.got[i]:
			if g.err != nil {
				c.Fatalf("name %d: %v", i, g.err)
			}
			took = append(took, g.at.Sub(released))
			c.held[i] = g.lock
		case <-time.After(10 * time.Second):
			c.Fatalf("the waiter of name %d was not woken", i)
		}
	}
	c.wg.Wait()
	slices.Sort(took)
	// A waiter that nobody wakes looks after half a second on average.
	if median := took[len(took)/2]; median > wakeMedian {
		c.Errorf("half the waiters got their lock later than %v after its release, want at most %v", median, wakeMedian)
	}
	idle := int64(idlePerWaiter * waiters * time.Since(began).Seconds() / 2) // those who still wait; half of them on average
	if scripts := c.scripts() - before; scripts > grantScripts*waiters+idle {
		c.Errorf("%d scripts for %d grants, want at most %d", scripts, waiters, grantScripts*waiters+idle)
	}
	c.Logf("woken after %v (median), %v (99 of 100), %v (last)", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// leave gives everything back: nobody listens, and nothing is stored.
func (c *crowd) leave() {
	c.Helper()
	for i, lock := range c.held {
		if err := lock.Unlock(); err != nil {
			c.Errorf("name %d: %v", i, err)
		}
	}
	mustBeQuiet(c.T, c.d.Servers())
	for _, s := range c.d.Masters() {
		left := slices.DeleteFunc(unexpected(s.Keys()), isCrowdSemaphore)
		if len(left) > 0 {
			c.Errorf("%s: %d keys are left, such as %q", s.Addr(), len(left), left[0])
		}
	}
}

// isCrowdSemaphore accepts the counter of a semaphore, which stays.
func isCrowdSemaphore(key string) bool {
	var i int
	n, err := fmt.Sscanf(key, "crowd:%d", &i)
	return err == nil && n == 1 && i%4 == 3
}
