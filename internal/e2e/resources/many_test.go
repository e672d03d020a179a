package resources

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

const (
	warmUp       = 30_000 // acquisitions until each client knows as many names as it remembers
	acquisitions = 50_000 // for each of the two adapters
	workers      = 64
	hotNames     = 8       // that all workers fight for
	ownNames     = 40      // of each worker and kind
	heapBound    = 1 << 20 // how much more memory may be in use at the end than after the warm-up
)

// A hundred thousand locks, of all kinds, with and without contention, some of
// them waited for and some given up half-way, leave nothing: no key, goroutine,
// subscription, timer or memory.
func TestManyAcquisitions(t *testing.T) {
	await.NotShort(t, "takes half a minute")
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) {
			d := redistest.StartDeployment(t, redistest.Standalone)
			server := d.Servers()[0]
			l := &load{programs: []*program{start(t, adapter, d), start(t, adapter, d)}}
			l.run(t, warmUp)
			l.settle(t, server)
			memory, goroutines, clients := heap(), runtime.NumGoroutine(), countClients(server)

			began := time.Now()
			l.run(t, acquisitions)
			took := time.Since(began)
			l.settle(t, server)
			if !await.Eventually(5*time.Second, func() bool { return runtime.NumGoroutine() <= goroutines }) {
				t.Errorf("%d goroutines, %d after the warm-up", runtime.NumGoroutine(), goroutines)
			}
			grown, now := heap()-memory, countClients(server)
			if now > clients+2*len(l.programs) && now > poolBound(adapter, len(l.programs)) {
				t.Errorf("%d connections, %d after the warm-up", now, clients)
			}
			if bound := heapBound + int64(max(0, now-clients))*connectionBound; grown > bound {
				t.Errorf("%d bytes of memory more than after the warm-up, want at most %d", grown, bound)
			}
			for _, p := range l.programs {
				p.close()
			}
			if !await.Eventually(5*time.Second, func() bool { return countClients(server) == 1 }) { // that which asks
				t.Errorf("connections left: %s", server.String("CLIENT", "LIST"))
			}
			waits := server.CommandStats()["subscribe"]
			if waits < 100 || l.busy.Load() < 100 || l.cancelled.Load() < 100 {
				t.Errorf("only %d subscriptions, %d busy and %d given up: this test has lost its point", waits, l.busy.Load(), l.cancelled.Load())
			}
			t.Logf("%d acquisitions in %v (%.0f/s), %d subscriptions, %d busy, %d given up; %d bytes more in use",
				acquisitions, took.Round(time.Millisecond), acquisitions/took.Seconds(), waits, l.busy.Load(), l.cancelled.Load(), grown)
		})
	}
}

// connectionBound is what a connection of go-redis may take: its buffers.
const connectionBound = 256 << 10

// poolBound is how many connections programs may have. Each pipeline of go-redis
// has one of its pool, how many are under way at once is chance, and as many again
// may be being dialed for those who have given up meanwhile (MaxConcurrentDials);
// rueidis needs no more than after the warm-up.
func poolBound(adapter string, programs int) int {
	if adapter == "rueidis" {
		return 0
	}
	return programs*(2*10*runtime.GOMAXPROCS(0)+2) + 1
}

func countClients(s *redistest.Server) int {
	return strings.Count(s.String("CLIENT", "LIST"), "\n")
}

// load is what programs do to a server.
type load struct {
	programs []*program

	busy, cancelled atomic.Int64
}

// run makes n acquisitions.
func (l *load) run(t *testing.T, n int64) {
	t.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{load: l, program: l.programs[i%len(l.programs)], number: i, random: rand.New(rand.NewPCG(uint64(i), uint64(n)))}
		wg.Go(func() {
			for done.Load() < n && !t.Failed() {
				got, err := w.once(t.Context())
				if err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
				done.Add(got)
			}
		})
	}
	wg.Wait()
}

// worker is one goroutine of a load.
type worker struct {
	*load
	program *program
	number  int
	random  *rand.Rand
}

// acquire is a way to take one lock.
type acquire func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)

// once takes one lock in one way, and releases it. It returns how many it got.
func (w *worker) once(ctx context.Context) (int64, error) {
	try, lock := w.choose()
	var held *holdfast.Lock
	var err error
	switch chance := w.random.IntN(100); {
	case chance < 60:
		held, err = try(ctx)
	case chance < 85:
		held, err = lock(ctx)
	case chance < 92:
		held, err = try(ctx, holdfast.Wait(5*time.Second))
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.random.IntN(2000))*time.Microsecond)
		held, err = lock(ctx)
		cancel()
	}
	switch {
	case errors.Is(err, holdfast.ErrBusy):
		w.busy.Add(1)
		return 0, nil
	case errors.Is(err, context.DeadlineExceeded):
		w.cancelled.Add(1)
		return 0, nil
	case err != nil:
		return 0, err
	}
	return 1, held.Unlock()
}

// choose returns a lock: one in four is fought for.
func (w *worker) choose() (try, lock acquire) {
	kind := w.random.IntN(6)
	name := fmt.Sprintf("own:%d:%d:%d", kind, w.number, w.random.IntN(ownNames))
	if w.random.IntN(4) == 0 {
		name = fmt.Sprintf("hot:%d:%d", kind, w.random.IntN(hotNames))
	}
	l := w.program.redisson
	m := l.Mutex(name)
	switch kind {
	case 1:
		m = l.FairMutex(name)
	case 2:
		m = l.RWMutex(name).Read
	case 3: // of a lock that is also read
		m = l.RWMutex(strings.Replace(name, ":3:", ":2:", 1)).Write
	case 4:
		s := l.Semaphore(name, 2)
		return s.TryAcquire, s.Acquire
	case 5:
		m = w.program.plain.Mutex(name)
	}
	return m.TryLock, m.Lock
}

// settle waits until all is released, and fails if something is not.
func (l *load) settle(t *testing.T, server *redistest.Server) {
	t.Helper()
	for _, p := range l.programs {
		p.drain(t)
	}
	mustBeQuiet(t, []*redistest.Server{server})
	if left := unexpected(server.Keys()); len(left) > 0 {
		t.Errorf("%d keys are left, such as %q", len(left), left[0])
	}
	permanent := func(key string) bool {
		return strings.HasPrefix(key, "holdfast:token:") || isSemaphore(key)
	}
	if stay := server.KeysWithoutTTL(permanent); len(stay) > 0 {
		t.Errorf("%d keys stay forever, such as %q", len(stay), stay[0])
	}
}

// unexpected returns the keys that are none of those that may be left: a counter
// of tokens for each slot that is in use, what ends by itself, and the counters of
// semaphores, which Redisson's layout keeps.
func unexpected(keys []string) (left []string) {
	counters := 0
	for _, key := range keys {
		switch {
		case strings.HasPrefix(key, "holdfast:token:"):
			counters++
		case redistest.Passing(key), isSemaphore(key):
		default:
			left = append(left, key)
		}
	}
	if most := 6 * (workers*ownNames + hotNames); counters > most {
		left = append(left, fmt.Sprintf("%d counters of tokens", counters))
	}
	return left
}

func isSemaphore(key string) bool {
	return strings.HasPrefix(key, "own:4:") || strings.HasPrefix(key, "hot:4:")
}
