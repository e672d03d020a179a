package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// Two names that differ by braces only.
const (
	bareName   = "orders"
	bracedName = "{orders}"

	apartPermits = 2
)

// apartKinds are the kinds of lock that two processes use under both names.
func apartKinds() []string {
	return []string{"mutex", "fair", "read", "write", "semaphore", "plain", "timestamp"}
}

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

// apartReport is what a process of TestNamesApart saw.
type apartReport struct {
	Held, Refused map[string]int // by name
	Faults        map[string]int // how often
}

// Two processes use two names that differ by braces only: no lock has two holders,
// no permit goes from one to the other, and where the layout would mix them up one
// of the names is refused, each time.
func TestNamesApart(t *testing.T) {
	rounds := apartRounds(t)
	for _, kind := range apartKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			reports := make([]apartReport, 2)
			var wg sync.WaitGroup
			for i := range reports {
				wg.Go(func() {
					out, err := runWorker(t.Context(), "apart", "KIND="+kind, "ADDR="+server.Addr(), "ROUNDS="+strconv.Itoa(rounds))
					if err == nil {
						err = json.Unmarshal(out, &reports[i])
					}
					if err != nil {
						t.Errorf("process %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			kept := kind == "plain" || kind == "timestamp"
			for i, r := range reports {
				for fault, times := range r.Faults {
					t.Errorf("process %d, %d times: %s", i, times, fault)
				}
				if r.Held[bareName] != rounds || kept && r.Held[bracedName] != rounds || !kept && r.Refused[bracedName] != rounds {
					t.Errorf("process %d: held %v and refused %v, want %d rounds of %s, and %s kept: %v", i, r.Held, r.Refused, rounds, bareName, bracedName, kept)
				}
			}
		})
	}
}

// apart is one process.
type apart struct {
	kind   string
	rounds int
	locker *holdfast.Locker
	data   *redis.Client

	mu     sync.Mutex
	report apartReport
}

func workApart() error {
	conn, shut, err := dial.Server("rueidis", os.Getenv("ADDR"), "", "")
	if err != nil {
		return err
	}
	defer shut()
	a := &apart{
		kind: os.Getenv("KIND"), data: redis.NewClient(&redis.Options{Addr: os.Getenv("ADDR")}),
		report: apartReport{Held: map[string]int{}, Refused: map[string]int{}, Faults: map[string]int{}},
	}
	defer a.data.Close()
	if a.rounds, err = strconv.Atoi(os.Getenv("ROUNDS")); err != nil {
		return err
	}
	protocol := map[string]redishold.Layout{"plain": redishold.Plain, "timestamp": redishold.Timestamp}[a.kind]
	a.locker = holdfast.New(redishold.New(conn, &redishold.Options{Layout: protocol}), &holdfast.Options{TTL: 3 * time.Second})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(a.rounds)*50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range []string{bareName, bracedName} {
		for part := range 2 {
			wg.Go(func() {
				for i := part; i < a.rounds && ctx.Err() == nil; i += 2 {
					a.round(ctx, name)
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(ctx.Err(), a.locker.Drain(ctx), json.NewEncoder(os.Stdout).Encode(a.report))
}

// round takes name once, and looks whether others have it too.
func (a *apart) round(ctx context.Context, name string) {
	var lock *holdfast.Lock
	var err error
	most := int64(1)
	switch a.kind {
	case "semaphore":
		most = apartPermits
		lock, err = a.locker.Semaphore(name, apartPermits).Acquire(ctx)
	case "read":
		most = 4
		lock, err = ofKind(a.locker, a.kind, name)(ctx)
	default:
		lock, err = ofKind(a.locker, a.kind, name)(ctx)
	}
	if errors.Is(err, driver.ErrRefused) && strings.Contains(err.Error(), strconv.Quote(bareName)) {
		a.count(a.report.Refused, name)
		return
	}
	if err != nil {
		a.count(a.report.Faults, fmt.Sprintf("%s: %v", name, err))
		return
	}
	if holders, err := a.data.Incr(ctx, "holders of "+name).Result(); err != nil || holders > most {
		a.count(a.report.Faults, fmt.Sprintf("%s has %d holders, error %v", name, holders, err))
	}
	if a.kind == "semaphore" {
		if total, _, err := a.locker.Semaphore(name, apartPermits).Permits(ctx); err != nil || total != apartPermits {
			a.count(a.report.Faults, fmt.Sprintf("%s has %d permits, error %v", name, total, err))
		}
	}
	if err := a.data.Decr(ctx, "holders of "+name).Err(); err != nil {
		a.count(a.report.Faults, err.Error())
	}
	if err := lock.Unlock(); err != nil {
		a.count(a.report.Faults, fmt.Sprintf("unlock %s: %v", name, err))
	}
	a.count(a.report.Held, name)
}

func (a *apart) count(in map[string]int, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in[what]++
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
