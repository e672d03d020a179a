package work

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestPage(t *testing.T) *page {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page")
	if err := NewPage(path); err != nil {
		t.Fatal(err)
	}
	p, err := openPage(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func TestRules(t *testing.T) {
	for _, test := range []struct {
		name   string
		inside []rule
		enters rule
		want   bool
	}{
		{"alone", nil, exclusive(), true},
		{"two writers", []rule{exclusive()}, exclusive(), false},
		{"reader beside reader", []rule{reading()}, reading(), true},
		{"reader beside writer", []rule{exclusive()}, reading(), false},
		{"writer beside reader", []rule{reading()}, exclusive(), false},
		{"second of two permits", []rule{permits(2)}, permits(2), true},
		{"third of two permits", []rule{permits(2), permits(2)}, permits(2), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newTestPage(t)
			for _, r := range test.inside {
				p.enter(3, r)
			}
			if got := p.enter(3, test.enters); got != test.want {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			if !p.enter(4, exclusive()) {
				t.Fatal("another slot is not free")
			}
			for _, r := range append(test.inside, test.enters) {
				p.leave(3, r)
			}
			if !p.enter(3, exclusive()) {
				t.Fatal("somebody was not counted out")
			}
		})
	}
}

func TestPagesAreShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	if err := NewPage(path); err != nil {
		t.Fatal(err)
	}
	a, errA := openPage(path)
	b, errB := openPage(path)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	defer a.close()
	defer b.close()
	a.enter(0, exclusive())
	if b.enter(0, exclusive()) {
		t.Fatal("two processes could hold the same name unseen")
	}
}

// A turn is a hold after that of another process.
func TestTurns(t *testing.T) {
	p := newTestPage(t)
	for i, test := range []struct {
		process int
		turn    bool
	}{{0, false}, {0, false}, {1, true}, {1, false}, {0, true}} {
		if got := p.takes(0, test.process); got != test.turn {
			t.Errorf("hold %d, by process %d: got turn %v, want %v", i, test.process, got, test.turn)
		}
	}
}

func TestIdleTime(t *testing.T) {
	p := newTestPage(t)
	if got := p.sinceVacated(0); got != 0 {
		t.Fatalf("got %v, want 0: nobody has left yet", got)
	}
	p.vacated(0)
	time.Sleep(time.Millisecond) // the clock has to move
	if got := p.sinceVacated(0); got < time.Millisecond || got > time.Minute {
		t.Fatalf("got %v, want a moment", got)
	}
	if got := p.sinceVacated(0); got != 0 {
		t.Fatalf("got %v, want 0: the same gap counted twice", got)
	}
}

// lawless gives every lock to everybody.
type lawless struct{ taken, given atomic.Int64 }

func (l *lawless) Lock(context.Context, string) (peer.Held, error) {
	l.taken.Add(1)
	return (*lawlessHeld)(l), nil
}

func (l *lawless) Close() {}

type lawlessHeld lawless

func (h *lawlessHeld) Unlock() error {
	h.given.Add(1)
	return nil
}

func workersOf(t *testing.T, p peer.Peer, work Work) *workers {
	t.Helper()
	w := &workers{plan: Plan{Peer: "test", Work: work}, page: newTestPage(t), dead: NewLatencies()}
	for g := range work.Goroutines {
		task, err := newTask(p, w.plan, g)
		if err != nil {
			t.Fatal(err)
		}
		w.tasks = append(w.tasks, task)
	}
	return w
}

// ready is a parent who never lets wait.
func ready() parent {
	return parent{bufio.NewReader(strings.NewReader(Go + "\n" + End + "\n")), io.Discard}
}

// A lock that does not exclude is found out; names of their own are not confused.
func TestViolationsAreSeen(t *testing.T) {
	for kind, want := range map[Kind]bool{One: true, Own: false} {
		p := &lawless{}
		w := workersOf(t, p, Work{Kind: kind, Goroutines: 4, Hold: peer.Duration(time.Millisecond)})
		w.plan.Pairs = 40
		r, err := w.count(ready())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Violations > 0; got != want {
			t.Errorf("%s: got violations %v, want %v", kind, got, want)
		}
		const warm = 4 * 3
		if r.Pairs != 40 || p.taken.Load() != 40+warm || p.given.Load() != 40+warm {
			t.Errorf("%s: got %d pairs, %d locks and %d unlocks, want 40 and %d", kind, r.Pairs, p.taken.Load(), p.given.Load(), 40+warm)
		}
	}
}

// What is done before and after the sample is not counted.
func TestOnlyTheSampleCounts(t *testing.T) {
	w := workersOf(t, &lawless{}, Work{Kind: Own, Goroutines: 1})
	for phase, want := range map[phase]int64{warming: 0, measuring: 1, over: 0} {
		w.phase.Store(phase)
		var done tally
		if err := w.pair(t.Context(), w.tasks[0], 0, &done); err != nil || done.pairs != want {
			t.Errorf("phase %d: got %d pairs, %v, want %d", phase, done.pairs, err, want)
		}
	}
}

// never waits until its context is done.
type never struct{}

func (never) Lock(ctx context.Context, _ string) (peer.Held, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (never) Close() {}

func TestWaitersAreNoFailureAtTheEnd(t *testing.T) {
	w := workersOf(t, never{}, Work{Kind: One, Goroutines: 3})
	w.plan.Sample = peer.Duration(10 * time.Millisecond)
	if r, err := w.clock(ready()); err != nil || r.Pairs != 0 || r.Elapsed < 10*time.Millisecond {
		t.Fatalf("got %d pairs in %v and error %v, want none", r.Pairs, r.Elapsed, err)
	}
}

// broken fails the second lock.
type broken struct{ lawless }

func (b *broken) Lock(ctx context.Context, key string) (peer.Held, error) {
	if b.taken.Load() == 1 {
		return nil, errors.New("no more")
	}
	return b.lawless.Lock(ctx, key)
}

func TestErrorsAreTold(t *testing.T) {
	for _, sample := range []time.Duration{0, time.Millisecond} {
		w := workersOf(t, &broken{}, Work{Kind: One, Goroutines: 1})
		w.plan.Sample, w.plan.Pairs = peer.Duration(sample), 5
		if _, err := pairsOf(w); err == nil || err.Error() != "no more" {
			t.Errorf("sample of %v: got %v, want what the peer said", sample, err)
		}
	}
}

func pairsOf(w *workers) (Result, error) {
	if w.plan.Sample == 0 {
		return w.count(ready())
	}
	return w.clock(ready())
}

// A parent who is gone ends the process.
func TestParentGone(t *testing.T) {
	w := workersOf(t, &lawless{}, Work{Kind: Own, Goroutines: 2})
	w.plan.Sample = peer.Duration(time.Millisecond)
	gone := parent{bufio.NewReader(strings.NewReader("")), io.Discard}
	if _, err := w.clock(gone); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want io.EOF", err)
	}
}

func TestOneByOneGivesBackWhatItHas(t *testing.T) {
	b := &broken{}
	if _, err := oneByOne(t.Context(), b, []string{"a", "b"}); err == nil {
		t.Fatal("got no error")
	}
	if b.taken.Load() != 1 || b.given.Load() != 1 {
		t.Fatalf("got %d locks and %d unlocks, want one each", b.taken.Load(), b.given.Load())
	}
}

// A variant for some works is left out of the others.
func TestSuitsSomeWorks(t *testing.T) {
	p := peer.Spec{Works: []string{"own-"}, Can: []peer.Ability{peer.Waits}}
	for name, want := range map[string]bool{"own-8": true, "one-16": false} {
		if got := (Work{Name: name, Kind: One}).Suits(p); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for client, want := range map[string]bool{"rueidis": true, "etcd": false} { // the network leads to Redis
		if got := (Work{Kind: Own, Delay: 1}).Suits(peer.Spec{Client: client}); got != want {
			t.Errorf("%s behind a network: got %v, want %v", client, got, want)
		}
	}
}

func TestListIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range List() {
		if seen[w.Name] || w.Title == "" || w.Processes < 1 || w.Goroutines < 1 || w.TTL <= 0 || w.Sample <= 0 {
			t.Errorf("%+v is twice there or not complete", w)
		}
		seen[w.Name] = true
		if w.Processes*w.Goroutines > slots {
			t.Errorf("%s: more goroutines than slots", w.Name)
		}
	}
	for _, want := range []string{"own-512", "one-1000", "one-4x16", "hold-4x25", "keep-100000", "all-100", "shared-64", "fair-128", "semaphore-100"} {
		if !seen[want] {
			t.Errorf("there is no %s in %v", want, fmt.Sprint(seen))
		}
	}
}

// leased is a lock that reports what is left.
type leased struct {
	lawlessHeld
	left time.Duration
}

func (l *leased) Remaining() time.Duration { return l.left }

func TestLeastLeft(t *testing.T) {
	if got := leastLeft([]peer.Held{&leased{left: 3}, &leased{left: 1}, &leased{left: 2}}); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	if got := leastLeft([]peer.Held{&lawlessHeld{}}); time.Duration(got) < time.Hour {
		t.Errorf("got %v of a peer that does not tell", got)
	}
}
