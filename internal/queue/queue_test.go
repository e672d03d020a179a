package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
)

type (
	queues = queue.Queues[string, *item, int]
	place  = queue.Place[string, *item, int]
)

// item is a value that is held and passed on.
type item struct {
	queue    *queue.Queue[string, *item, int]
	received atomic.Int32
}

func begin() int { return 0 }

func nothing(*int, int) {}

func ignore(*item, *int) {}

// waiter takes a place as a waiter.
func waiter(t *testing.T, qs *queues) *place {
	t.Helper()
	p, head := qs.Enter("key", true, true, begin)
	if head {
		t.Fatal("nobody was there before")
	}
	return p
}

// holder holds a value in a queue that it has begun.
func holder(t *testing.T, qs *queues) (*item, *queue.Queue[string, *item, int]) {
	t.Helper()
	p, head := qs.Enter("key", true, true, begin)
	if !head {
		t.Fatal("somebody was there before")
	}
	v := new(item)
	return v, p.Hold(v, nothing)
}

// The order is that of arrival, whether a waiter becomes a head or is passed a value.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var qs queues
		first, q := holder(t, &qs)
		var served []int
		for i := range 6 {
			p := waiter(t, &qs)
			go func() {
				v, given, err := p.Wait(t.Context())
				if err != nil || given != (i%2 == 0) {
					t.Errorf("%d: given %v, %v", i, given, err)
				}
				served = append(served, i)
				if !given {
					v = new(item)
					p.Hold(v, nothing)
				}
				time.Sleep(time.Second)
				if given || !q.Pass(v, func() (*item, bool) { return new(item), true }, func() {}) {
					q.Next(v, nothing)
				}
			}()
		}
		if !q.Pass(first, func() (*item, bool) { return new(item), true }, func() {}) {
			t.Fatal("not passed on")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(served, want) || qs.Do("key", ignore) {
			t.Errorf("served %v, or the queue is left", served)
		}
	})
}

// Pass calls its argument before, and then lets the receiver go on, also a receiver that gives
// up.
func TestReceiverWaitsForPass(t *testing.T) {
	for name, receive := range map[string]func(*place) (*item, bool){
		"waits": func(p *place) (*item, bool) {
			v, given, _ := p.Wait(context.Background())
			return v, given
		},
		"leaves": func(p *place) (*item, bool) { return p.Leave(nothing) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var qs queues
				former, q := holder(t, &qs)
				p := waiter(t, &qs)
				next := new(item)
				go q.Pass(former, func() (*item, bool) { return next, true }, func() { time.Sleep(time.Second) })
				synctest.Wait()
				start := time.Now()
				v, given := receive(p)
				if took := time.Since(start); took != time.Second || v != next || !given {
					t.Errorf("after %v: %p, %v; want %p after 1 s", took, v, given, next)
				}
				if !q.Next(v, nothing) || qs.Do("key", ignore) {
					t.Error("the queue is left")
				}
			})
		})
	}
}

// The receiver goes on even if a function panics that Pass calls.
func TestPanicAheadOfTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var qs queues
		former, q := holder(t, &qs)
		p := waiter(t, &qs)
		func() {
			defer func() { _ = recover() }()
			q.Pass(former, func() (*item, bool) { return new(item), true }, func() { panic("ahead") })
		}()
		v, given, err := p.Wait(t.Context())
		if !given || err != nil || !q.Next(v, nothing) {
			t.Errorf("given %v, %v", given, err)
		}
	})
}

// Wait ends with its context. It prefers what came before that.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var qs queues
		v, q := holder(t, &qs)
		p := waiter(t, &qs)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		q.Next(v, nothing)
		for range 100 {
			if _, given, err := p.Wait(ctx); err != nil || given {
				t.Fatalf("its turn had come: %v, %v", given, err)
			}
			p.Stay(false)
			if _, given := p.Leave(nothing); given {
				t.Fatal("given what nobody passed on")
			}
			p, _ = qs.Enter("key", true, true, begin)
			v = new(item)
			q = p.Hold(v, nothing)
			p = waiter(t, &qs)
			q.Next(v, nothing)
		}
		p.Leave(nothing)
	})
}

// Of several heads, one waits for the store. The others become waiters again at their old
// places, and later heads.
func TestHeadsGoBackInOrder(t *testing.T) {
	var qs queues
	first, _ := qs.Enter("key", true, false, begin)
	var places []*place
	for range 4 {
		places = append(places, waiter(t, &qs))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	heads := func(want ...bool) {
		t.Helper()
		for i, p := range places {
			if _, _, err := p.Wait(over); (err == nil) != want[i] {
				t.Errorf("%d is head: %v", i, err == nil)
			}
		}
	}
	first.Admit(true, 3, nothing)
	heads(true, true, true, false)
	if !places[1].Stay(false) || places[2].Stay(false) || places[0].Stay(false) || !places[1].Stay(false) {
		t.Fatal("not one of several heads stays")
	}
	places[1].Admit(true, 2, nothing)
	places = slices.Delete(places, 1, 2)
	heads(true, true, false)
	for _, p := range places {
		p.Leave(nothing)
	}
	if qs.Do("key", ignore) {
		t.Error("the queue is left")
	}
}

// waits is the result of a Scan.
type waits struct {
	key   string
	since time.Duration
	n     int
}

// A wait counts from the first Scan that finds it, and goes on when the waiter becomes a
// head.
func TestScan(t *testing.T) {
	var qs queues
	scan := func(now time.Duration, want ...waits) {
		t.Helper()
		var found []waits
		qs.Scan(now, func(key string, since time.Duration, n int) { found = append(found, waits{key, since, n}) })
		if !slices.Equal(found, want) {
			t.Errorf("at %d: got %v, want %v", now, found, want)
		}
	}
	scan(1)
	p, _ := qs.Enter("key", true, true, begin)
	scan(2, waits{"key", 2, 1})
	v := new(item)
	q := p.Hold(v, nothing)
	scan(3)
	one := waiter(t, &qs)
	scan(4, waits{"key", 4, 1})
	two := waiter(t, &qs)
	scan(5, waits{"key", 4, 2})
	q.Next(v, nothing) // one
	scan(6, waits{"key", 4, 2})
	one.Leave(nothing)
	scan(7, waits{"key", 5, 1})
	three := waiter(t, &qs)
	two.Admit(false, 1, nothing)
	scan(8, waits{"key", 8, 1})
	three.Leave(nothing)
	scan(9)
}

// Scan lets other goroutines lock the mutex while it visits many queues.
func TestScanOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var qs queue.Queues[int, *item, int]
		const n = 5000
		for i := range n {
			qs.Enter(i, true, true, begin)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := n; ; i++ {
				select {
				case <-stop:
					return
				default:
					p, _ := qs.Enter(i, true, true, begin)
					p.Leave(nothing)
				}
			}
		})
		for now := range time.Duration(50) {
			seen := map[int]int{}
			qs.Scan(now+1, func(key int, _ time.Duration, _ int) { seen[key]++ })
			for i := range n {
				if seen[i] != 1 {
					t.Fatalf("queue %d was seen %d times", i, seen[i])
				}
			}
		}
		close(stop)
		wg.Wait()
	})
}

// crowd is the shared state of goroutines that make all kinds of calls at the same time.
type crowd struct {
	*testing.T
	qs     queues
	inside [3]atomic.Int32
	passed atomic.Int64
	got    atomic.Int64
	turns  atomic.Int64
	gaveUp atomic.Int64
}

// Goroutines come, wait, give up, hold, pass on and end. No two of them hold at the same
// time, each value that was passed on is received once, and no goroutine is left.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{T: t}
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 2))
				for range 100 {
					c.visit(r, r.IntN(3))
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if c.passed.Load() != c.got.Load() {
			t.Errorf("%d were passed on, %d received", c.passed.Load(), c.got.Load())
		}
		for _, key := range keys {
			if c.qs.Do(key, ignore) {
				t.Errorf("the queue of %s is left", key)
			}
		}
		t.Logf("%d passed on, %d turns, %d gave up", c.passed.Load(), c.turns.Load(), c.gaveUp.Load())
		if c.passed.Load() < 100 || c.turns.Load() < 100 || c.gaveUp.Load() < 100 {
			t.Error("these are too few to show anything")
		}
	})
}

var keys = [...]string{"a", "b", "c"}

// visit enters a queue once.
func (c *crowd) visit(r *rand.Rand, at int) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Duration(r.IntN(300))*time.Millisecond)
	defer cancel()
	var v *item
	p, head := c.qs.Enter(keys[at], true, r.IntN(4) > 0, begin)
	given, err := false, error(nil)
	if !head {
		v, given, err = p.Wait(ctx)
	}
	switch {
	case err != nil:
		c.gaveUp.Add(1)
		if v, given = p.Leave(nothing); !given {
			return
		}
		fallthrough
	case given:
		c.got.Add(1)
		if v.received.Add(1) != 1 {
			c.Error("received twice")
		}
	default:
		c.turns.Add(1)
		time.Sleep(time.Millisecond) // the store
		if r.IntN(5) == 0 {
			p.Leave(nothing)
			return
		}
		v = new(item)
		v.queue = p.Hold(v, nothing)
	}
	if c.inside[at].Add(1) != 1 {
		c.Error("two hold the same")
	}
	time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
	c.inside[at].Add(-1)
	c.let(r, v)
}

// let passes v on, or makes the next waiter the head.
func (c *crowd) let(r *rand.Rand, v *item) {
	next := func() (*item, bool) { return &item{queue: v.queue}, r.IntN(4) > 0 }
	ahead := func() { c.passed.Add(1); time.Sleep(time.Millisecond) }
	if !v.queue.Pass(v, next, ahead) && !v.queue.Next(v, nothing) {
		c.Error("what was held was not")
	}
}
