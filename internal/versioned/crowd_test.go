package versioned_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

// slow is a Store whose calls need a time, as those of a server do.
type slow struct {
	versioned.Store
	trip time.Duration
}

func (s slow) Get(ctx context.Context, name string) (versioned.Item, error) {
	time.Sleep(s.trip / 2)
	defer time.Sleep(s.trip / 2)
	return s.Store.Get(ctx, name)
}

func (s slow) Put(ctx context.Context, w versioned.Write) (versioned.Version, error) {
	time.Sleep(s.trip / 2)
	defer time.Sleep(s.trip / 2)
	return s.Store.Put(ctx, w)
}

type slowWatched struct{ slow }

func (s slowWatched) Watch(ctx context.Context, live func(), changed func(string, versioned.Version)) error {
	return watched{s.Store.(*memory)}.Watch(ctx, live, func(name string, v versioned.Version) {
		time.Sleep(s.trip / 2)
		changed(name, v)
	})
}

// crowd is how many turns each goroutine of several processes got, and the longest wait for one.
type crowd struct {
	turns   []int
	longest time.Duration
}

// jain is the index of Jain of the turns: 1 if all got as many.
func (c crowd) jain() float64 {
	sum, squares := 0.0, 0.0
	for _, n := range c.turns {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	return sum * sum / (squares * float64(len(c.turns)))
}

func (c crowd) total() (n int) {
	for _, turns := range c.turns {
		n += turns
	}
	return n
}

// taker takes a lock.
type taker = func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)

// runCrowd lets 4 processes of 16 goroutines work for some time with the lock that `lock` returns.
func runCrowd(t *testing.T, m *memory, watches bool, length time.Duration, lock func(*holdfast.Locker) taker) crowd {
	t.Helper()
	const processes, goroutines, hold = 4, 16, time.Millisecond
	c := crowd{turns: make([]int, processes*goroutines)}
	var mu sync.Mutex
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	for p := range processes {
		var store versioned.Store = slow{m, time.Millisecond}
		if watches {
			store = slowWatched{slow{m, time.Millisecond}}
		}
		locker := holdfast.New(open(store, false), &holdfast.Options{TTL: 10 * time.Second})
		take := lock(locker)
		var work sync.WaitGroup
		for g := range goroutines {
			work.Go(func() {
				for ctx.Err() == nil {
					began := time.Now()
					lock, err := take(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					c.turns[p*goroutines+g]++
					c.longest = max(c.longest, time.Since(began))
					mu.Unlock()
					time.Sleep(hold)
					if err := lock.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			work.Wait()
			if err := locker.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return c
}

// Processes that want one name all the time get about equal shares, and none waits for long.
func TestShares(t *testing.T) {
	takers := map[string]func(*holdfast.Locker) taker{
		"mutex":     func(l *holdfast.Locker) taker { return l.Mutex("one").Lock },
		"fair":      func(l *holdfast.Locker) taker { return l.FairMutex("one").Lock },
		"writer":    func(l *holdfast.Locker) taker { return l.RWMutex("one").Write.Lock },
		"semaphore": func(l *holdfast.Locker) taker { return l.Semaphore("one", 3).Acquire },
	}
	for kind, lock := range takers {
		for _, watches := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " watches ", watches), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory(true)
					const length = 4 * time.Second
					began := time.Now()
					c := runCrowd(t, m, watches, length, lock)
					seconds := time.Since(began).Seconds()
					per := float64(c.total()) / seconds
					t.Logf("%.0f turns/s, index %.3f, longest wait %v, least %d, most %d; %.1f reads, %.1f writes, %.2f conflicts a turn", per, c.jain(), c.longest,
						slices.Min(c.turns), slices.Max(c.turns), float64(m.gets)/float64(c.total()), float64(m.puts)/float64(c.total()), float64(m.lost)/float64(c.total()))
					if c.jain() < 0.95 || c.longest > time.Second {
						t.Errorf("the index is %.3f, and the longest wait %v", c.jain(), c.longest)
					}
				})
			})
		}
	}
}

// 500 callers that wait cost the store a bounded number of calls, and leave nothing when they all give
// up at once.
func TestCrowdThatGivesUp(t *testing.T) {
	takers := map[string]func(*holdfast.Locker) taker{
		"mutex":     func(l *holdfast.Locker) taker { return l.Mutex("one").Lock },
		"fair":      func(l *holdfast.Locker) taker { return l.FairMutex("one").Lock },
		"reader":    func(l *holdfast.Locker) taker { return l.RWMutex("one").Read.Lock },
		"semaphore": func(l *holdfast.Locker) taker { return l.Semaphore("one", 1).Acquire },
	}
	for kind, lock := range takers {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(true)
				const callers = 500
				holder := holdfast.New(open(slow{m, time.Millisecond}, false), &holdfast.Options{TTL: time.Minute})
				waiting := holdfast.New(open(slow{m, time.Millisecond}, false), &holdfast.Options{TTL: time.Minute})
				hold := lock(holder)
				if kind == "reader" {
					hold = holder.RWMutex("one").Write.Lock
				}
				held, err := hold(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				take := lock(waiting)
				ctx, giveUp := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						if _, err := take(ctx); err == nil {
							t.Error("a second holder")
						}
					})
				}
				time.Sleep(10 * time.Second)
				calls := m.called()
				time.Sleep(10 * time.Second)
				perSecond := float64(m.called()-calls) / 10
				calls = m.called()
				giveUp()
				all.Wait()
				if err := waiting.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				after := m.called() - calls
				t.Logf("%.1f calls/s while %d wait, %d calls when they give up", perSecond, callers, after)
				if perSecond > 100 || after > 100 {
					t.Errorf("got %.1f calls/s, and %d calls when they give up", perSecond, after)
				}
				records, err := open(m, false).Get(t.Context(), "one")
				if err != nil || records[0].Holders != 1 || records[0].Waiting != 0 {
					t.Errorf("got %+v and error %v, want the holder alone", records, err)
				}
				if data := string(m.items["one"].data); strings.Contains(data, "waiting") || strings.Contains(data, "queue") {
					t.Errorf("the document is %s", data)
				}
				if err := held.Unlock(); err != nil {
					t.Error(err)
				}
				if err := holder.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
