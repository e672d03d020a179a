package holdfast_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// A waiter that gives up is skipped.
func TestCancelledInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		held := chain(t, l, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		for range 2 {
			go func() {
				_, err := l.Lock(ctx, "job")
				failed <- err
			}()
		}
		go func() {
			_, err := l.TryLock(t.Context(), "job", holdfast.Wait(10*time.Millisecond))
			failed <- err
		}()
		synctest.Wait()
		got := standing(t, l, 1)
		cancel()
		for range 2 {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		}
		if err := <-failed; !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("after the limit: got %v, want ErrBusy", err)
		}
		tries := store.Tries.Load()
		must.Unlock(t, held)
		next := <-got
		if next.Token() != held.Token()+1 || store.Tries.Load() != tries {
			t.Errorf("token %d after %d: want the next one, passed on", next.Token(), held.Token())
		}
		must.Unlock(t, next)
		mustBeFree(t, store, "job")
	})
}

// occupied fails if two goroutines are inside at the same time.
type occupied struct{ atomic.Int32 }

func (o *occupied) visit(t *testing.T) {
	t.Helper()
	if o.Add(1) != 1 {
		t.Error("two hold the lock")
	}
	o.Add(-1)
}

// If a waiter gives up in the moment in which the lock is passed to it, it has the lock or
// it does not. If it does not, the waiter behind it gets the lock, or the store does.
func TestCancelledWhileBeingGiven(t *testing.T) {
	for _, behind := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			store := memhold.New()
			l := holdfast.New(store, nil)
			var inside occupied
			taken, declined, later := 0, 0, 0 // later is adjusted until both happen about equally often
			const rounds = 1000
			for round := range rounds {
				held := chain(t, l, 1)[0]
				ctx, cancel := context.WithCancel(t.Context())
				type answer struct {
					k   *holdfast.Lock
					err error
				}
				first := make(chan answer)
				go func() {
					k, err := l.Lock(ctx, "job")
					first <- answer{k, err}
				}()
				synctest.Wait()
				rest := make(chan uint64, behind)
				for range behind {
					go func() {
						k := must.Lock(t, l, "job")
						inside.visit(t)
						rest <- k.Token()
						must.Unlock(t, k)
					}()
					synctest.Wait()
				}
				if round%2 == 0 { // the waiter that gives up has not run yet when the lock comes
					cancel()
					must.Unlock(t, held)
				} else {
					atOnce(cancel, func() { must.Unlock(t, held) }, later)
				}
				a := <-first
				later = max(later-5, 0)
				last := held.Token()
				switch {
				case a.err == nil:
					taken++
					later += 10
					inside.visit(t)
					if last = a.k.Token(); last != held.Token()+1 {
						t.Errorf("passed on token %d after %d", last, held.Token())
					}
					must.Unlock(t, a.k)
				case !errors.Is(a.err, context.Canceled):
					t.Errorf("got %v, want the context's error", a.err)
				}
				for i := range behind {
					token := <-rest
					if i == 0 && a.err != nil && token > last+1 {
						declined++ // a token is missing in the sequence: it was passed to the waiter that gave up
					}
					if token <= last {
						t.Errorf("token %d after %d", token, last)
					}
					last = token
				}
				synctest.Wait()
				mustBeFree(t, store, "job")
			}
			if behind > 0 && declined == 0 {
				t.Errorf("%d behind: nobody gave the lock up when it was given", behind)
			}
			t.Logf("%d behind: of %d, %d had the lock; %d gave it up when it was theirs", behind, rounds, taken, declined)
		})
	}
}

// atOnce runs two functions as much at the same time as it can. With a larger later, the
// second one starts later.
func atOnce(a, b func(), later int) {
	var ready, start atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ready.Store(true); !start.Load(); {
			runtime.Gosched()
		}
		spin(200)
		a()
	}()
	for !ready.Load() {
		runtime.Gosched()
	}
	start.Store(true)
	spin(later)
	b()
	<-done
}

// spin uses the processor for a short time.
func spin(steps int) {
	var x atomic.Int64
	for range steps {
		x.Add(1)
	}
}

// TryLock does not wait, so no lock can be passed to it. If no other goroutine waits,
// Unlock has released the lock in the store when it returns.
func TestTryLockIsPassedNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := unfenced{memhold.New()}
		l := holdfast.New(store, nil)
		late := 0
		const rounds = 200
		for range rounds {
			held := must.Lock(t, l, "job")
			owner := holders(t, store, "job")[0].Owner
			refused := make(chan int)
			var begun atomic.Bool
			go func() { // tries until it has the lock, which no other goroutine wants
				for n := 0; ; n++ {
					begun.Store(n > 10)
					k, err := l.TryLock(t.Context(), "job")
					if err == nil {
						refused <- n
						must.Unlock(t, k)
						return
					}
				}
			}()
			for !begun.Load() {
				runtime.Gosched()
			}
			must.Unlock(t, held)
			hs := holders(t, store, "job")
			if len(hs) == 1 && hs[0].Owner == owner {
				late++
			}
			<-refused
			synctest.Wait()
		}
		if late > 0 {
			t.Errorf("in %d of %d rounds the name was still held after Unlock had returned, and nobody waited for it", late, rounds)
		}
	})
}
