package once_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/once"
)

// do is Do or DoDetached.
type do func(context.Context, *holdfast.Mutex, func(context.Context) (string, once.State, error), func(context.Context, *holdfast.Lock) (string, error), ...holdfast.Option) (string, error)

// A caller that has a stale value does not wait longer than 250 ms for a store that hangs.
func TestStaleWhileTheStoreHangs(t *testing.T) {
	for name, do := range map[string]do{"Do": once.Do[string], "DoDetached": once.DoDetached[string]} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, c := faulty.New(), &cache{value: "old", state: once.Stale}
				store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
					return driver.Outcome{}, faulty.Hang(ctx)
				}
				l := holdfast.New(store, nil)
				var callers sync.WaitGroup
				for range 100 {
					callers.Go(func() {
						began := time.Now()
						got, err := do(t.Context(), l.Mutex("key"), c.get, c.after(0, "new"), holdfast.Wait(time.Minute))
						if took := time.Since(began); got != "old" || err != nil || took > 275*time.Millisecond {
							t.Errorf("got %q, %v after %v, want the stale value after 275ms at most", got, err, took)
						}
					})
				}
				callers.Wait()
				store.Change(func() { store.OnTry = nil })
				must.Drain(t, l)
			})
		})
	}
}

// A fill that takes longer than the deadline of its caller makes the value for the others.
func TestFillOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := holdfast.New(memhold.New(), nil), &cache{}
		key := contextKey{}
		fill := func(ctx context.Context, lock *holdfast.Lock) (string, error) {
			if ctx.Value(key) != "first" {
				t.Errorf("the context of fill has the value %v, want that of the first caller", ctx.Value(key))
			}
			select {
			case <-time.After(3 * time.Second):
				return "new", c.put("new", lock.Token())
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		var callers sync.WaitGroup
		for i, deadline := range []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if i == 0 {
				ctx = context.WithValue(ctx, key, "first")
			}
			callers.Go(func() {
				began := time.Now()
				got, err := once.DoDetached(ctx, l.Mutex("key"), c.get, fill)
				took := time.Since(began)
				switch {
				case i == 0 && (!errors.Is(err, context.DeadlineExceeded) || took != deadline):
					t.Errorf("the first caller: got %q, %v after %v, want the end of its deadline of %v", got, err, took, deadline)
				case i > 0 && (got != "new" || err != nil || took > 3100*time.Millisecond):
					t.Errorf("caller %d: got %q, %v after %v, want the new value after 3s", i, got, err, took)
				}
			})
			synctest.Wait()
		}
		callers.Wait()
		if c.fills != 1 {
			t.Errorf("got %d fills, want 1", c.fills)
		}
		must.Drain(t, l)
	})
}

type contextKey struct{}

// With a stale value, each caller returns at once, also the caller whose fill goes on.
func TestDetachedWithAStaleValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := holdfast.New(memhold.New(), nil), &cache{value: "old", state: once.Stale}
		began := time.Now()
		for range 3 {
			if got, err := once.DoDetached(t.Context(), l.Mutex("key"), c.get, c.after(time.Second, "new")); got != "old" || err != nil {
				t.Errorf("got %q, %v, want the stale value", got, err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("three calls took %v, want no time", took)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, err := once.DoDetached(t.Context(), l.Mutex("key"), c.get, nil); got != "new" || err != nil || c.fills != 1 {
			t.Errorf("after the fill: got %q, %v and %d fills, want the new value and 1", got, err, c.fills)
		}
		must.Unlock(t, must.Lock(t, l, "key", holdfast.Wait(0))) // the fill has released it
	})
}

// DoDetached returns what Do returns if nothing goes on in the background.
func TestDetachedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, own := holdfast.New(memhold.New(), nil), &cache{}, errors.New("disk full")
		fail := func(context.Context, *holdfast.Lock) (string, error) { return "", own }
		if _, err := once.DoDetached(t.Context(), l.Mutex("key"), c.get, fail); !errors.Is(err, own) {
			t.Errorf("fill failed: got %v, want %v", err, own)
		}
		lock := must.Lock(t, l, "key")
		if _, err := once.DoDetached(t.Context(), l.Mutex("key"), c.get, fail, holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("the wait is over: got %v, want ErrBusy", err)
		}
		must.Unlock(t, lock)
	})
}

// The read side of a read-write lock would let each caller fill.
func TestReadSideIsRefused(t *testing.T) {
	l, c := holdfast.New(memhold.New(), nil), &cache{}
	for name, do := range map[string]do{"Do": once.Do[string], "DoDetached": once.DoDetached[string]} {
		if _, err := do(t.Context(), l.RWMutex("key").Read, c.get, c.after(0, "new")); err == nil || !strings.Contains(err.Error(), "use a Mutex") || c.fills > 0 {
			t.Errorf("%s: got %v and %d fills, want an error that says to use a Mutex", name, err, c.fills)
		}
	}
}
