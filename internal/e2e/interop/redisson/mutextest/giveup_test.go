package mutextest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// A thread of Java waits beside a process of Go whose goroutines take the lock one after the
// other, with quiet releases. Then all of these give up, as in a service that shuts down.
// Nobody dies, so the thread does not wait for the end of a lease.

// TestLockInCluster has the cases of a plain lock in a cluster, where the calls of a process
// overtake each other most.
func TestLockInCluster(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Cluster, []redisson.Case{
		{Name: "66c all callers of Go give up while Java waits", Run: goGivesUp},
	})
}

// callers is the number of goroutines that give up.
const callers = 4

// giveUpRounds returns how often all callers give up, and how soon Java has to have the lock
// then. HOLDFAST_ROUNDS is for a machine without other work: this many rounds, with the bound
// that the library promises.
func giveUpRounds(t *testing.T) (rounds int, limit time.Duration) {
	t.Helper()
	text := os.Getenv("HOLDFAST_ROUNDS")
	if text == "" {
		return 5, redisson.WakeLimit
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("HOLDFAST_ROUNDS: %v", err)
	}
	return rounds, 100 * time.Millisecond
}

// crowd is a process of Go whose callers want the lock again and again until they give up.
type crowd struct {
	t       *testing.T
	locker  *holdfast.Locker
	store   *countCalls
	waiting atomic.Int32 // how many calls have begun to wait
	gaveUp  atomic.Int32 // how many callers have given up
}

// countCalls counts the quiet releases, and the wake-ups that follow them.
type countCalls struct {
	*redishold.Backend
	quiet, wakes atomic.Int32
}

func (c *countCalls) StartRelease(ctx context.Context, claim driver.Claim) func() (int, error) {
	if claim.Quiet {
		c.quiet.Add(1)
	}
	return c.Backend.StartRelease(ctx, claim)
}

func (c *countCalls) Wake(ctx context.Context, claim driver.Claim) error {
	defer c.wakes.Add(1)
	return c.Backend.Wake(ctx, claim)
}

// newCrowd returns a crowd on the case's deployment, without hand-offs. If proxy is not nil, it
// is between the crowd and the server that keeps the lock.
func newCrowd(t *testing.T, b *redisson.Bench, adapter string, proxy *faultproxy.Proxy) *crowd {
	t.Helper()
	target := dial.To(adapter, b.Deployment)
	if proxy != nil {
		target.Routes = map[string]string{b.Admin().Addr(): proxy.Addr()}
	}
	conn, shut, err := dial.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	c := &crowd{t: t, store: &countCalls{Backend: redishold.New(conn, nil)}}
	c.locker = holdfast.New(c.store, &holdfast.Options{
		TTL: 5 * time.Second, Handoff: holdfast.Handoff{Max: -1},
		Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventWait {
				c.waiting.Add(1)
			}
		},
	})
	t.Cleanup(func() { must.Drain(t, c.locker) })
	must.Unlock(t, must.Lock(t, c.locker, b.Name+"-warm"))
	return c
}

// begin has the callers wait for the lock of that name. Each calls holds with the number of the grants so far whenever it
// has the lock, and unlocks. The function wait returns when all have given up.
func (c *crowd) begin(ctx context.Context, name string, holds func(grant int)) (wait func()) {
	c.t.Helper()
	c.waiting.Store(0)
	c.gaveUp.Store(0)
	var grants atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil { // another Lock would send what an earlier one still owes to Java
				lock, err := c.locker.Lock(ctx, name)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						c.t.Errorf("got error %v, want that the context has ended", err)
					}
					c.gaveUp.Add(1)
					return
				}
				holds(int(grants.Add(1)))
				if err := lock.Unlock(); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	redisson.Await(c.t, "the goroutines wait", func() bool { return c.waiting.Load() >= callers })
	return all.Wait
}

// goGivesUp has all callers of Go give up during one of their first releases, some of which are
// quiet.
func goGivesUp(t *testing.T, b *redisson.Bench) {
	rounds, limit := giveUpRounds(t)
	j := java(t, b, "c66")
	for _, adapter := range []string{"rueidis", "goredis"} {
		holder, crowd := through(b, adapter, 10*time.Second), newCrowd(t, b, adapter, nil)
		var all []time.Duration
		void := 0
		for len(all) < rounds {
			// The crowd does not know yet who else waits for a new name, and so asks as soon as Java.
			name := fmt.Sprintf("%s-%d", b.Name, len(all)+void)
			took, late, valid := giveUpOnce(t, b.Quiet(), j.at(name), holder, crowd)
			switch {
			case valid:
				all = append(all, took-late)
			case void == 100*rounds:
				t.Fatalf("%s: Java was faster than Go %d times of %d", adapter, void, void+len(all))
			default:
				void++
				continue
			}
			if took > limit+late {
				t.Errorf("%s, round %d: Java has the lock %v after all callers of Go gave up, want %v at most; the machine stood still for %v", adapter, len(all), took, limit, late)
			}
		}
		slices.Sort(all)
		t.Logf("%s: of %d times, Java had the lock after %v in the middle, p99 %v, %v at most; %d releases were quiet, %d wake-ups followed; Java was faster than Go %d times",
			adapter, len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1], crowd.store.quiet.Load(), crowd.store.wakes.Load(), void)
		if crowd.store.wakes.Load() == 0 {
			t.Errorf("%s: no wake-up was sent: of the releases %d were quiet", adapter, crowd.store.quiet.Load())
		}
	}
}

// giveUpOnce is one round of goGivesUp. It returns how long after the callers gave up Java had
// the lock, and for how long there was no processor meanwhile. The round is not valid if Java
// had the lock before that.
func giveUpOnce(t *testing.T, noJVM sync.Locker, j thread, holder *holdfast.Locker, c *crowd) (took, late time.Duration, valid bool) {
	t.Helper()
	noJVM.Lock()
	defer noJVM.Unlock()
	first := must.Lock(t, holder, j.name)
	q := j.begin("lock", 0, 0)
	q.asleep()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var gaveUp atomic.Pointer[time.Time]
	last, after := 1+rand.IntN(3), rand.N(300*time.Microsecond)
	wait := c.begin(ctx, j.name, func(grant int) {
		if grant != last {
			return
		}
		go func() { // while the release is on its way
			for began := time.Now(); time.Now().Before(began.Add(after)); { // a timer is not exact enough
			}
			now := time.Now()
			gaveUp.Store(&now)
			cancel()
		}()
	})
	var at time.Time
	late = await.Starved(func() {
		must.Unlock(t, first)
		redisson.Await(t, "all callers give up, or Java has the lock", func() bool { return gaveUp.Load() != nil || !q.answer.Waits() })
		valid = gaveUp.Load() != nil
		cancel()
		if valid {
			wait()
		}
		at = q.got()
	})
	j.unlock()
	wait()
	if !valid || at.Before(*gaveUp.Load()) {
		return 0, 0, false
	}
	return at.Sub(*gaveUp.Load()), late, true
}

// goGivesUpLate delays the quiet release during which all callers of Go give up, as a slow
// connection does. Java has the lock as soon as that release has run.
func goGivesUpLate(t *testing.T, b *redisson.Bench) {
	_, limit := giveUpRounds(t)
	j := java(t, b, "c66b")
	for _, adapter := range []string{"rueidis", "goredis"} {
		proxy := faultproxy.Start(t, b.Admin().Addr())
		holder, crowd := through(b, adapter, 10*time.Second), newCrowd(t, b, adapter, proxy)
		for void := 0; !giveUpLate(t, b, j, holder, crowd, proxy, limit); void++ {
			if void == 500 {
				t.Fatalf("%s: Java was faster than Go, or the machine too slow, %d times", adapter, void)
			}
		}
	}
}

// giveUpLate is one round of goGivesUpLate. It returns false if Java got the lock before Go, or if
// the machine was too slow.
func giveUpLate(t *testing.T, b *redisson.Bench, j thread, holder *holdfast.Locker, c *crowd, proxy *faultproxy.Proxy, limit time.Duration) (valid bool) {
	t.Helper()
	noJVM := b.Quiet()
	noJVM.Lock()
	defer noJVM.Unlock()
	release := faultproxy.Script(redistest.ScriptSHA(t, "release"))
	quiet := proxy.On(func(cmd []string) bool { // EVALSHA, the digest, 1, the lock, the owner, the channel, and no command that publishes
		return release(cmd) && len(cmd) == 6 && slices.Contains(cmd, b.Name)
	}, faultproxy.DelayRequest(0))
	defer quiet.Release()
	first := must.Lock(t, holder, b.Name)
	q := j.begin("lock", 0, 0)
	q.asleep()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait, wakes := c.begin(ctx, b.Name, func(int) {}), c.store.wakes.Load()
	must.Unlock(t, first)
	redisson.Await(t, "Go releases quietly, or Java has the lock", func() bool { return quiet.Count() > 0 || !q.answer.Waits() })
	// The core repeats a release after 500 ms without an answer, and that one is not quiet.
	const patience = 400 * time.Millisecond
	over := time.Now().Add(patience)
	valid = quiet.Count() > 0
	cancel() // while the release is on its way
	if valid {
		redisson.Await(t, "all callers but the one that unlocks give up", func() bool { return c.gaveUp.Load() == callers-1 })
		await.Eventually(50*time.Millisecond, func() bool { return c.store.wakes.Load() > wakes }) // which is too early
		q.asleep()
	}
	if !valid || time.Now().After(over) {
		quiet.Release()
		j.unlock()
		wait()
		return false
	}
	var took time.Duration
	late := await.Starved(func() {
		released := time.Now()
		quiet.Release()
		took = q.got().Sub(released)
	})
	wait()
	if took > limit+late {
		t.Errorf("Java has the lock %v after the quiet release, want %v at most; the machine stood still for %v", took, limit, late)
	}
	j.unlock()
	return true
}
