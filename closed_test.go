package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// shut makes a store answer as if the program had closed its client.
func shut(f *faulty.Store) {
	closed := fmt.Errorf("%w: %w: %w", driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted)
	f.Change(func() {
		f.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, closed }
		f.OnRelease = func(context.Context, driver.Claim) error { return closed }
		f.OnRenew = func(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answers := make([]driver.Renewal, len(cs))
			for i := range answers {
				answers[i].Err = fmt.Errorf("%w: %w", &driver.GoneError{Reason: driver.ReasonClosed}, closed)
			}
			return answers, nil
		}
	})
}

// No call waits for a store whose client is closed.
func TestClosedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		one, two, lost := must.Lock(t, l, "one"), must.Lock(t, l, "two"), must.Lock(t, l, "lost")
		other := must.Lock(t, holdfast.New(store.Backend, nil), "other")
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Lock(t.Context(), "other")
			waiting <- err
		}()
		synctest.Wait()
		shut(store)

		start := time.Now()
		if err := one.Unlock(); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Unlock: got %v, want ErrClosed", err)
		}
		if err := (holdfast.Locks{two}).Unlock(); err != nil && !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Locks.Unlock: got %v", err)
		}
		for _, lock := range []func(context.Context, string, ...holdfast.Option) (*holdfast.Lock, error){l.Lock, l.TryLock} {
			if _, err := lock(t.Context(), "three"); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("Lock: got %v, want ErrClosed", err)
			}
		}
		drainNow(t, l)
		between(t, "all of it", time.Since(start), 0, 100*time.Millisecond)
		if err := <-waiting; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("who waited: got %v, want ErrClosed", err)
		}
		between(t, "who waited", time.Since(start), 0, 1100*time.Millisecond)

		<-lost.Context(t.Context()).Done()
		var loss *holdfast.LostError
		if !errors.As(lost.Err(), &loss) || loss.Reason != driver.ReasonClosed {
			t.Errorf("who held: got %v, want a loss with the reason closed", lost.Err())
		}
		between(t, "who held", time.Since(start), 0, 10*time.Second) // the next renewal
		_ = lost.Unlock()
		drainNow(t, l)
		must.Unlock(t, other)
		time.Sleep(time.Minute)
	})
}
