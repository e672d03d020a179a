package holdfast

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/memhold"
)

// workers are goroutines that want "job", and the locks that they got.
type workers struct {
	t     *testing.T
	store *memhold.Backend
	l     *Locker
	got   chan *Lock
}

func newWorkers(t *testing.T, o *Options) *workers {
	store := memhold.New()
	return &workers{t, store, New(store, o), make(chan *Lock, 10)}
}

// enter lets one more goroutine wait in the queue, and returns a function that makes it
// give up.
func (w *workers) enter() (cancel func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		k, err := w.l.Lock(ctx, "job")
		if err == nil {
			w.got <- k
		} else if !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	}()
	synctest.Wait()
	return cancel
}

// chained returns a lock that can be passed on.
func (w *workers) chained() *Lock {
	w.t.Helper()
	first, err := w.l.Lock(w.t.Context(), "job")
	if err != nil {
		w.t.Fatal(err)
	}
	w.enter()
	w.unlock(first)
	return <-w.got
}

func (w *workers) unlock(k *Lock) {
	w.t.Helper()
	if err := k.Unlock(); err != nil {
		w.t.Errorf("Unlock: %v", err)
	}
}

// owner returns the owner of the lock in the store.
func (w *workers) owner() string {
	w.t.Helper()
	records, err := w.store.Get(context.Background(), "job")
	if err != nil || records[0].Holders > 1 {
		w.t.Fatalf("in the store: %+v, %v", records, err)
	}
	if records[0].Holders == 0 {
		return ""
	}
	return records[0].Holds[0].Owner
}

// stuck gives a lock a context whose end takes until release is called.
func stuck(k *Lock) (release func()) {
	end := make(chan struct{})
	d := &derived{cancel: func(error) { <-end }}
	if err := k.hold.addContext(d); err != nil {
		panic(err)
	}
	return func() { close(end) }
}

// The contexts of the former holder have ended when the next holder begins.
func TestContextsEndBeforeTheHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t, nil)
		former := w.chained()
		ctx := former.Context(t.Context())
		release := stuck(former)
		w.enter()
		go w.unlock(former)
		synctest.Wait()
		if len(w.got) != 0 {
			t.Error("the next one has the lock while a context of the former holder runs")
		}
		release()
		next := <-w.got
		if !errors.Is(context.Cause(ctx), ErrUnlocked) {
			t.Errorf("the former holder's context: got %v, want ErrUnlocked", context.Cause(ctx))
		}
		w.unlock(next)
	})
}

// That is also so if the next waiter gives up at that time, and the lock goes to the waiter
// behind it or to the store.
func TestContextsEndBeforeADeclinedHandoff(t *testing.T) {
	for name, behind := range map[string]bool{"to the next": true, "to the store": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorkers(t, nil)
				former := w.chained()
				owner := w.owner()
				release := stuck(former)
				cancel := w.enter()
				if behind {
					w.enter()
				}
				go w.unlock(former)
				synctest.Wait()
				cancel()
				synctest.Wait()
				if len(w.got) != 0 || w.owner() != owner {
					t.Error("the lock went on while a context of the former holder runs")
				}
				release()
				if behind {
					w.unlock(<-w.got)
				}
				synctest.Wait()
				if owner := w.owner(); owner != "" {
					t.Errorf("still held by %s", owner)
				}
			})
		})
	}
}

// If a receiver declines a hold, no event reports its end, as none reported its beginning:
// a program that counts holds by the events gets the right number.
func TestEventsOfADeclinedHandoff(t *testing.T) {
	for name, lost := range map[string]bool{"declined": false, "lost on the way": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var held atomic.Int32
				w := newWorkers(t, &Options{Observe: func(_ context.Context, e Event) {
					switch {
					case e.Type == EventAcquire && e.Err == nil:
						held.Add(1)
					case e.Type == EventRelease && !errors.Is(e.Err, ErrLost), e.Type == EventLoss:
						held.Add(-1)
					}
				}})
				former := w.chained()
				release := stuck(former)
				cancel := w.enter()
				go w.unlock(former)
				synctest.Wait()
				if lost {
					_ = former.hold.lease.lose(driver.ReasonDeleted, nil, func() {})
				}
				cancel()
				synctest.Wait()
				release()
				synctest.Wait()
				if n := held.Load(); n != 0 {
					t.Errorf("by the events %d locks are held at the end", n)
				}
			})
		})
	}
}

// If a lease is lost while it is passed on, no goroutine has it: the receiver asks the
// store, and so do those behind it.
func TestLossDuringTheHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t, nil)
		former := w.chained()
		release := stuck(former)
		for range 3 {
			w.enter()
		}
		go w.unlock(former)
		synctest.Wait()
		w.store.Drop("job")
		_ = former.hold.lease.lose(driver.ReasonDeleted, nil, func() {})
		synctest.Wait()
		release()
		last := former.Token()
		for range 3 {
			k := <-w.got
			if err := k.Err(); err != nil || k.Token() <= last {
				t.Errorf("token %d after %d, %v: want a lock of the store", k.Token(), last, err)
			}
			last = k.Token()
			w.unlock(k)
		}
		if err := former.Err(); !errors.Is(err, ErrUnlocked) {
			t.Errorf("the former holder: got %v, want ErrUnlocked", err)
		}
		synctest.Wait()
		if n := queuesOf(w.l); n != 0 {
			t.Errorf("%d queues left", n)
		}
	})
}

// After a suspension of the machine, a lease may belong to another client. It is not passed
// on: the store decides which claim is next.
func TestNoHandoffAfterASuspension(t *testing.T) {
	for name, lost := range map[string]bool{"still held": false, "lost meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				w := newWorkers(t, nil)
				w.l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				held := w.chained()
				owner := w.owner()
				w.enter()
				other := New(w.store, nil)
				ahead.Store(int64(time.Hour))
				if lost {
					w.store.Drop("job")
					taken, err := other.TryLock(t.Context(), "job")
					if err != nil {
						t.Fatal(err)
					}
					if err := held.Unlock(); !errors.Is(err, ErrLost) {
						t.Errorf("Unlock of what another has: got %v, want ErrLost", err)
					}
					synctest.Wait()
					if len(w.got) != 0 {
						t.Error("the next one has a lock that another holds")
					}
					w.unlock(taken)
				} else {
					w.unlock(held)
				}
				next := <-w.got
				if w.owner() == owner || next.Token() <= held.Token() {
					t.Errorf("token %d after %d: want a grant of the store", next.Token(), held.Token())
				}
				if err := next.Err(); err != nil {
					t.Errorf("the next one: %v", err)
				}
				w.unlock(next)
			})
		})
	}
}

// When the lease is proven again after the suspension, the holder passes it on as before.
func TestHandoffAfterARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		w := newWorkers(t, &Options{Handoff: Handoff{For: time.Hour}})
		w.l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		held := w.chained()
		owner := w.owner()
		ahead.Store(int64(time.Hour))
		_ = held.Err() // asks
		w.enter()
		synctest.Wait()
		w.unlock(held)
		next := <-w.got
		if w.owner() != owner || next.Err() != nil {
			t.Errorf("not passed on after the store was asked; %v", next.Err())
		}
		w.unlock(next)
	})
}

// If a Lock that was passed on is dropped, it is not renewed, and the next goroutine can
// have the lock.
func TestDroppedLockInAChain(t *testing.T) {
	store := memhold.New()
	l := New(store, &Options{TTL: 300 * time.Millisecond, Handoff: Handoff{For: time.Hour}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lock := func() *Lock {
		k, err := l.Lock(ctx, "job")
		if err != nil {
			t.Error(err)
		}
		return k
	}
	waitingFor := func(n int) {
		for queued(l, "job") != n && ctx.Err() == nil {
			runtime.Gosched()
		}
	}
	first := lock()
	var wg sync.WaitGroup
	wg.Go(func() { _ = lock().Unlock() }) // granted by the store, and passed on
	waitingFor(1)
	given := make(chan uint64)
	wg.Go(func() { given <- lock().Token() }) // dropped
	waitingFor(2)
	next := make(chan *Lock)
	go func() { next <- lock() }()
	waitingFor(3)
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	token := <-given
	wg.Wait()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for queued(l, "job") > 0 && ctx.Err() == nil {
			runtime.GC()
		}
	}()
	k := <-next
	if k == nil || k.Err() != nil || k.Token() <= token {
		t.Fatalf("after a dropped lock with token %d: %+v", token, k)
	}
	<-collected
	if err := k.Unlock(); err != nil {
		t.Error(err)
	}
}

// queuesOf returns how many queues there are for the name job.
func queuesOf(l *Locker) (n int) {
	for k := plain; k <= permit; k++ {
		if l.queues.Do(queueKey{"job", k}, func(*hold, *queueState) {}) {
			n++
		}
	}
	return n
}

// queued returns how many goroutines wait or ask for a name.
func queued(l *Locker, name string) (found int) {
	l.queues.Scan(1, func(key queueKey, _ clock.Instant, n int) {
		if key == (queueKey{name, plain}) {
			found = n
		}
	})
	return found
}

// Places and queues are used again, and keep nothing of their earlier use: a waiter may
// leave at any moment.
func TestQueuesAreUsedAgain(t *testing.T) {
	for _, most := range []int{64, -1} {
		synctest.Test(t, func(t *testing.T) { useAgain(t, newWorkers(t, &Options{Handoff: Handoff{Max: most}})) })
	}
}

func useAgain(t *testing.T, w *workers) {
	for range 50 {
		former := w.chained()
		var cancels []func()
		for range 4 {
			cancels = append(cancels, w.enter())
		}
		cancels[0]() // the goroutine has not run yet when it becomes the head
		w.unlock(former)
		cancels[2]()
		for done := false; !done; {
			synctest.Wait()
			select {
			case k := <-w.got:
				w.unlock(k)
			default:
				done = true
			}
		}
	}
	if n, owner := queuesOf(w.l), w.owner(); n != 0 || owner != "" {
		t.Errorf("%d queues are left, held by %q", n, owner)
	}
}

// A caller that does not wait gets the answer that the store gave to the head of the queue.
func TestTryLockLearnsWhatTheHeadHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t, nil)
		held, err := New(w.store, &Options{Note: "elsewhere"}).Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		w.enter()
		_, err = w.l.TryLock(t.Context(), "job")
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Holder != "elsewhere" || busy.Remaining == 0 {
			t.Errorf("got %+v (%v), want the holder that the head waits for", busy, err)
		}
		w.unlock(held)
		w.unlock(<-w.got)
	})
}
