package sessiontest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Waiter is a waiter for a lock.
type Waiter struct {
	Granted chan struct{} // closed then
	At      time.Time     // when it was granted

	lock *holdfast.Lock
}

// Wait has l wait for a name until ctx ends, which fails t.
func Wait(ctx context.Context, t *testing.T, l *holdfast.Locker, name string) *Waiter {
	t.Helper()
	w := &Waiter{Granted: make(chan struct{})}
	go func() {
		defer close(w.Granted)
		var err error
		if w.lock, err = l.Lock(ctx, name); err != nil {
			t.Error(err)
		}
		w.At = time.Now()
	}()
	return w
}

// Has reports whether the waiter has been granted.
func (w *Waiter) Has() bool {
	select {
	case <-w.Granted:
		return true
	default:
		return false
	}
}

// Serve waits until all waiters have had the lock, each with a larger token than the one
// before, and reports whether that was in their order.
func Serve(t *testing.T, before uint64, waiters ...*Waiter) (inOrder bool) {
	t.Helper()
	inOrder = true
	for len(waiters) > 0 {
		i := nextOf(waiters)
		inOrder = inOrder && i == 0
		w := waiters[i]
		if w.lock == nil {
			t.FailNow()
		}
		if w.lock.Token() <= before {
			t.Errorf("token %d after %d", w.lock.Token(), before)
		}
		before = w.lock.Token()
		must.Unlock(t, w.lock)
		waiters = append(waiters[:i:i], waiters[i+1:]...)
	}
	return inOrder
}

// nextOf waits for one of the waiters to be granted.
func nextOf(waiters []*Waiter) int {
	granted := make(chan int, len(waiters))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i, w := range waiters {
		go func() {
			select {
			case <-w.Granted:
				granted <- i
			case <-ctx.Done():
			}
		}()
	}
	return <-granted
}
