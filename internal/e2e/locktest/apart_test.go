package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// Two names that differ by braces only.
const (
	bareName   = "orders"
	bracedName = "{orders}"

	apartPermits = 2
	apartHold    = 200 * time.Microsecond // two round trips
)

// apartRounds returns how often each process takes each name: a few times, or as
// often as HOLDFAST_ROUNDS says.
func apartRounds(t testing.TB) int {
	t.Helper()
	text := os.Getenv("HOLDFAST_ROUNDS")
	if text == "" {
		return 100
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("HOLDFAST_ROUNDS: %v", err)
	}
	return rounds
}

// Two processes use two names that differ by braces only: no lock has two holders,
// no permit goes from one to the other, and where the layout would mix them up one
// of the names is refused, each time.
func TestNamesApart(t *testing.T) {
	for _, k := range []worker.Kind{worker.Mutex, worker.Fair, worker.Reader, worker.Writer, worker.Permit} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			testApart(t, plan{Kind: k})
		})
	}
	for _, layout := range []redishold.Layout{redishold.Plain, redishold.Timestamp} {
		t.Run(layout.String(), func(t *testing.T) {
			t.Parallel()
			testApart(t, plan{Kind: worker.Mutex, Layout: layout})
		})
	}
}

func testApart(t *testing.T, p plan) {
	t.Helper()
	s := &subject{T: t, adapter: "rueidis", server: redistest.Start(t)}
	p.Actors, p.Ops, p.TTL = 4, apartRounds(t), 3*time.Second
	c := newScenario(s, time.Minute+time.Duration(p.Ops)*50*time.Millisecond)
	for range 2 {
		c.start(apartJob, p)
	}
	h := c.finish()
	kept := p.Layout != redishold.Redisson
	swept := h.Check(judge.Rules{Permits: apartPermits, Tokenless: kept})
	if swept.Err() != nil {
		t.Errorf("violation: %v", swept.Err())
	}
	type key struct {
		process int
		name    string
	}
	held, refused := map[key]int{}, map[key]int{}
	for _, o := range h.Operations {
		if o.Granted != judge.Never {
			held[key{o.Process, o.Name}]++
		} else {
			refused[key{o.Process, o.Name}]++
		}
	}
	for i := range c.workers {
		bare, braced := key{i, bareName}, key{i, bracedName}
		if held[bare] != p.Ops || kept && held[braced] != p.Ops || !kept && refused[braced] != p.Ops {
			t.Errorf("process %d: held %v and refused %v, want %d rounds of %s, and %s kept: %v", i, held, refused, p.Ops, bareName, bracedName, kept)
		}
	}
}

// useApart takes each name as often as the plan says, with half of the actors.
func useApart(w *workload) error {
	l := w.locker()
	failed := w.each(func(actor int) error {
		name := []string{bareName, bracedName}[actor%2]
		for range (w.Ops + actor/2) / 2 {
			if err := w.takeApart(l, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	return errors.Join(failed, l.Drain(w.ctx))
}

// takeApart takes name once. It returns nil also if the name is refused because of the other one.
func (w *workload) takeApart(l *holdfast.Locker, name string) error {
	lock, op, err := w.log.Take(w.ctx, w.Kind.Request(l, name, apartPermits))
	if errors.Is(err, driver.ErrRefused) && strings.Contains(err.Error(), strconv.Quote(bareName)) {
		return nil
	}
	if err != nil {
		return err
	}
	time.Sleep(apartHold)
	if w.Kind == worker.Permit {
		if total, _, err := l.Semaphore(name, apartPermits).Permits(w.ctx); err != nil || total != apartPermits {
			return fmt.Errorf("it has %d permits, error %w", total, err)
		}
	}
	return w.log.Give(lock, op)
}

// A name that the layout would mix up with another is refused at every entry, with
// an error that names the other; and by a quorum too.
func TestRefusedNameAtEveryEntry(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		b := redishold.New(s.conn(s.server.Addr()), nil)
		nodes := []driver.Backend{b}
		for range 2 {
			nodes = append(nodes, redishold.New(s.conn(redistest.Start(s).Addr()), nil))
		}
		q, err := quorum.New(nodes, nil)
		if err != nil {
			s.Fatal(err)
		}
		for what, b := range map[string]driver.Backend{"one server": b, "quorum": q} {
			l := s.drained(holdfast.New(b, nil))
			for _, name := range []string{bracedName, bracedName + ":timeout", "redisson_lock_queue:" + bracedName} {
				for entry, call := range entries(l, admin.New(b), name) {
					ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
					err := call(ctx)
					cancel()
					if what == "quorum" && errors.Is(err, errors.ErrUnsupported) {
						continue
					}
					if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), strconv.Quote(bareName)) {
						s.Errorf("%s, %s of %q: got error %v, want a refusal that names %q", what, entry, name, err, bareName)
					}
				}
			}
		}
		if keys := lockKeys(s.server.Admin); len(keys) != 0 {
			s.Errorf("left behind: %q", keys)
		}
	})
}

// entries are all calls of the library that take the name of a lock, but for those
// that only show what is in the store.
func entries(l *holdfast.Locker, c *admin.Console, name string) map[string]func(context.Context) error {
	of := func(call func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := call(ctx); return err }
	}
	sem, latch := l.Semaphore(name, 1), l.CountDownLatch(name)
	return map[string]func(context.Context) error{
		"Lock": of(l.Mutex(name).Lock), "TryLock": of(l.Mutex(name).TryLock),
		"fair Lock": of(l.FairMutex(name).Lock), "fair TryLock": of(l.FairMutex(name).TryLock),
		"read Lock": of(l.RWMutex(name).Read.Lock), "read TryLock": of(l.RWMutex(name).Read.TryLock),
		"write Lock": of(l.RWMutex(name).Write.Lock), "write TryLock": of(l.RWMutex(name).Write.TryLock),
		"Acquire": of(sem.Acquire), "TryAcquire": of(sem.TryAcquire),
		"Resize":  func(ctx context.Context) error { return sem.Resize(ctx, 2) },
		"Permits": func(ctx context.Context) error { _, _, err := sem.Permits(ctx); return err },
		"Set":     func(ctx context.Context) error { _, err := latch.TrySet(ctx, 1); return err },
		"Done":    latch.CountDown,
		"Count":   func(ctx context.Context) error { _, err := latch.Count(ctx); return err },
		"Wait":    latch.Wait,
		"LockAll": func(ctx context.Context) error {
			_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex(name)})
			return err
		},
		"ForceUnlock": func(ctx context.Context) error {
			return c.ForceUnlock(ctx, name, admin.Holder{Owner: "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:1", Holds: 1}, "test")
		},
	}
}
