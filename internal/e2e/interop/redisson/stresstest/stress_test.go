// Package stresstest has Java and Go take the same locks many times.
package stresstest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// workers are the threads of Java, and again the goroutines.
const workers = 10

// longestWait is how long one of them may be kept from a lock that all want.
const longestWait = time.Minute

func TestMain(m *testing.M) {
	redisson.Prepare(2)
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}

// kind is a lock that both sides know.
type kind struct {
	java string
	from string // version
	// lock takes it as the i-th goroutine does, and says whether it is its alone.
	lock func(ctx context.Context, l *holdfast.Locker, name string, i int) (k *holdfast.Lock, alone bool, err error)
}

func kinds() map[string]kind {
	return map[string]kind{
		"RLock": {java: "lock", lock: mutex},
		"fair": {java: "fair", lock: func(ctx context.Context, l *holdfast.Locker, name string, _ int) (*holdfast.Lock, bool, error) {
			k, err := l.FairMutex(name).Lock(ctx)
			return k, true, err
		}},
		"read-write": {java: "write", lock: func(ctx context.Context, l *holdfast.Locker, name string, i int) (*holdfast.Lock, bool, error) {
			if i%2 == 0 {
				k, err := l.RWMutex(name).Read.Lock(ctx)
				return k, false, err
			}
			k, err := l.RWMutex(name).Write.Lock(ctx)
			return k, true, err
		}},
		"fenced": {java: "fenced", from: "3.19.0", lock: mutex},
		"semaphore": {java: "permits", lock: func(ctx context.Context, l *holdfast.Locker, name string, _ int) (*holdfast.Lock, bool, error) {
			k, err := l.Semaphore(name, 1).Acquire(ctx)
			return k, true, err
		}},
	}
}

func mutex(ctx context.Context, l *holdfast.Locker, name string, _ int) (*holdfast.Lock, bool, error) {
	k, err := l.Lock(ctx, name)
	return k, true, err
}

// Cases 17 and 20: a counter that nothing protects but the lock stays exact, no
// worker starves, and no hash is ever without a TTL. HOLDFAST_STRESS is the number
// of acquisitions, 10,000 by `make interop`.
func TestStress(t *testing.T) {
	total := 2000
	if text := os.Getenv("HOLDFAST_STRESS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("HOLDFAST_STRESS: %v", err)
		}
		total = n
	}
	var cases []redisson.Case
	for name, k := range kinds() {
		cases = append(cases, redisson.Case{Name: "17 and 20, " + name, From: k.from, Run: func(t *testing.T, b *redisson.Bench) {
			b.Name = "case17-" + k.java + ":lock"
			stress(t, b, k, total/(2*workers))
		}})
	}
	redisson.Run(t, redisson.Versions(), redistest.Standalone, cases)
}

func stress(t *testing.T, b *redisson.Bench, k kind, each int) {
	counter := b.Name + ":counter"
	l := b.Over(b.Backend(redishold.Options{SharedTokens: k.java == "fenced"}), 5*time.Second)
	client := redis.NewClient(&redis.Options{Addr: b.Admin().Addr()})
	t.Cleanup(func() { _ = client.Close() })
	if k.java == "permits" {
		redisson.ThreadOf(t, b.Java, k.java).Do(peer.Command{Op: "trySetPermits", Kind: "permits", Name: b.Name, N: 1})
	}
	sampled, stopSampling := sample(b.Admin(), b.Name, k.java != "permits")
	t.Cleanup(stopSampling)
	began := time.Now()
	java := make([]redisson.Answer, workers)
	for i := range java {
		java[i] = redisson.ThreadOf(t, b.Java, fmt.Sprintf("%s-%d", k.java, i)).Begin(peer.Command{
			Op: "stress", Kind: javaKind(k, i), Name: b.Name, N: int64(each), Value: counter,
			Wait: longestWait.Milliseconds(), // for each of them
		})
	}
	var team sync.WaitGroup
	w := &work{t: t, client: client, locker: l, kind: k, name: b.Name, counter: counter}
	for i := range workers {
		team.Go(func() { w.run(i, each) })
	}
	team.Wait()
	for i := range java {
		r := java[i].Ended()
		if err := r.Err(); err != nil {
			t.Errorf("Java, thread %d: %v", i, err)
		} else if r.Int() > 1 {
			t.Errorf("Java, thread %d: saw %d inside", i, r.Int())
		}
	}
	took := time.Since(began)
	stopSampling()
	w.report(b, each*writers(k), took, <-sampled)
	if k.java == "permits" {
		b.Admin().Do("DEL", b.Name, "{"+b.Name+"}:timeout") // Redisson keeps a semaphore forever
	}
}

// javaKind has half of Java's threads read where there are readers.
func javaKind(k kind, i int) string {
	if k.java == "write" && i%2 == 0 {
		return "read"
	}
	return k.java
}

// writers is how many of all workers add to the counter.
func writers(k kind) int {
	if k.java == "write" {
		return workers
	}
	return 2 * workers
}

// work is what goroutines do.
type work struct {
	t             *testing.T
	client        *redis.Client
	locker        *holdfast.Locker
	kind          kind
	name, counter string

	mu      sync.Mutex
	longest time.Duration // that one waited
	tokens  uint64        // the largest token
	sum     time.Duration
}

// run takes the lock n times.
func (w *work) run(i, n int) {
	for range n {
		if err := w.once(i); err != nil {
			w.t.Errorf("goroutine %d: %v", i, err)
			return
		}
	}
}

func (w *work) once(i int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*longestWait)
	defer cancel()
	asked := time.Now()
	k, alone, err := w.kind.lock(ctx, w.locker, w.name, i)
	if err != nil {
		return err
	}
	defer func() {
		if failed := k.Unlock(); err == nil {
			err = failed
		}
	}()
	w.note(time.Since(asked), k.Token(), alone)
	if !alone {
		return w.look(ctx)
	}
	inside, err := w.client.Incr(ctx, w.counter+":in").Result()
	if err != nil {
		return err
	}
	if inside != 1 {
		return fmt.Errorf("%d inside", inside)
	}
	was, err := w.client.Get(ctx, w.counter).Int64()
	if err != nil && err != redis.Nil {
		return err
	}
	if err := w.client.Set(ctx, w.counter, was+1, 0).Err(); err != nil {
		return err
	}
	return w.client.Decr(ctx, w.counter+":in").Err()
}

// look is what a reader does: no writer may be inside.
func (w *work) look(ctx context.Context) error {
	inside, err := w.client.Get(ctx, w.counter+":in").Int64()
	if err == redis.Nil {
		return nil
	}
	if err == nil && inside != 0 {
		return fmt.Errorf("a reader sees %d writers inside", inside)
	}
	return err
}

// note wants tokens to rise from one of Go's holders to the next.
func (w *work) note(waited time.Duration, token uint64, alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, waited)
	w.sum += waited
	if alone && token <= w.tokens {
		w.t.Errorf("token %d after %d", token, w.tokens)
	}
	w.tokens = max(w.tokens, token)
}

func (w *work) report(b *redisson.Bench, want int, took time.Duration, samples samples) {
	if got := b.Admin().String("GET", w.counter); got != strconv.Itoa(want) {
		w.t.Errorf("counter: got %s, want %d", got, want)
	}
	if inside := b.Admin().String("GET", w.counter+":in"); inside != "0" {
		w.t.Errorf("%s are inside still", inside)
	}
	if w.longest > longestWait {
		w.t.Errorf("one goroutine waited for %v", w.longest)
	}
	if samples.bare > 0 || samples.seen < 10 {
		w.t.Errorf("of %d looks at the lock %d found no TTL", samples.seen, samples.bare)
	}
	w.t.Attr("observed", fmt.Sprintf("counter %d in %v; the longest wait of a goroutine %v", want, took.Round(time.Millisecond), w.longest.Round(time.Millisecond)))
}

// samples is what looking at the lock's TTL found.
type samples struct{ seen, bare int }

// sample looks at the lock's TTL again and again. A counter of permits has none.
func sample(a redistest.Admin, key string, hash bool) (<-chan samples, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan samples, 1)
	go func() {
		var s samples
		for ctx.Err() == nil {
			switch ttl := a.Int("PTTL", key); {
			case ttl >= 0, !hash:
				s.seen++
			case ttl == -1:
				s.bare++
			}
			time.Sleep(3 * time.Millisecond)
		}
		out <- s
	}()
	return out, cancel
}
