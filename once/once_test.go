package once_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// cache keeps one value, with the token of the lock under which it was made.
type cache struct {
	mu    sync.Mutex
	value string
	token uint64
	state once.State
	fills int
}

func (c *cache) get(context.Context) (string, once.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.state, nil
}

var errOldToken = errors.New("another has filled since")

// put stores a value, unless there is one with a larger token.
func (c *cache) put(value string, token uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < c.token {
		return errOldToken
	}
	c.value, c.token, c.state = value, token, once.Fresh
	c.fills++
	return nil
}

// after returns a fill that takes d.
func (c *cache) after(d time.Duration, value string) func(context.Context, *holdfast.Lock) (string, error) {
	return func(_ context.Context, lock *holdfast.Lock) (string, error) {
		time.Sleep(d)
		return value, c.put(value, lock.Token())
	}
}

// One fill serves 200 callers in four processes, also if the first caller died during its
// fill.
func TestManyCallers(t *testing.T) {
	for name, dies := range map[string]bool{"sound": false, "the first dies": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const fill, ttl = 5 * time.Second, 10 * time.Second
				store, c, limit := memhold.New(), &cache{}, fill
				if dies { // its lock is not renewed
					must.Lock(t, holdfast.New(store, nil), "key", holdfast.FixedLease(ttl))
					limit += ttl
				}
				began := time.Now()
				var callers sync.WaitGroup
				for range 4 {
					l := holdfast.New(store, &holdfast.Options{TTL: ttl})
					for range 50 {
						callers.Go(func() {
							got, err := once.Do(t.Context(), l.Mutex("key"), c.get, c.after(fill, "value"))
							if got != "value" || err != nil {
								t.Errorf("got %q, %v", got, err)
							}
						})
					}
				}
				callers.Wait()
				if took := time.Since(began); c.fills != 1 || took > limit+100*time.Millisecond {
					t.Errorf("%d fills, all served after %v, want one and %v", c.fills, took, limit)
				}
			})
		})
	}
}

// A stale value is returned while one caller makes a new one.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cache{value: "old", state: once.Stale}
		l := holdfast.New(memhold.New(), nil)
		began, got := time.Now(), make(chan string, 100)
		for range 100 {
			go func() {
				v, err := once.Do(t.Context(), l.Mutex("key"), c.get, c.after(time.Second, "new"), holdfast.Wait(time.Minute))
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		for range 99 {
			if v := <-got; v != "old" || time.Since(began) > 0 {
				t.Errorf("got %q after %v, want the old value at once", v, time.Since(began))
			}
		}
		if v := <-got; v != "new" {
			t.Errorf("got %q of who made it", v)
		}
	})
}

// A caller gets the error of its own fill, or the stale value if there is one; the next
// caller runs fill again.
func TestFailedFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, own := holdfast.New(memhold.New(), nil), errors.New("disk full")
		fail := func(context.Context, *holdfast.Lock) (string, error) { return "", own }
		for state, want := range map[once.State]error{once.Missing: own, once.Stale: nil} {
			c := &cache{value: "old", state: state}
			if got, err := once.Do(t.Context(), l.Mutex("key"), c.get, fail); !errors.Is(err, want) || err == nil && got != "old" {
				t.Errorf("state %d: got %q, %v", state, got, err)
			}
			if got, err := once.Do(t.Context(), l.Mutex("key"), c.get, c.after(0, "new")); got != "new" || err != nil {
				t.Errorf("state %d, again: got %q, %v", state, got, err)
			}
		}
	})
}

// A value that became stale while its caller waited is returned if fill fails.
func TestStaleAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := holdfast.New(memhold.New(), nil), &cache{}
		lock := must.Lock(t, l, "key")
		time.AfterFunc(time.Second, func() {
			c.mu.Lock()
			c.value, c.state = "old", once.Stale
			c.mu.Unlock()
			must.Unlock(t, lock)
		})
		fail := func(context.Context, *holdfast.Lock) (string, error) { return "", errors.New("disk full") }
		if got, err := once.Do(t.Context(), l.Mutex("key"), c.get, fail); got != "old" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// A filler that was paused for longer than its lease is refused by its token.
func TestPausedFiller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memhold.New(), &cache{}
		mutex := func() *holdfast.Mutex { return holdfast.New(store, nil).Mutex("key") }
		paused := make(chan error)
		go func() { // the process is paused, so it does not renew either
			_, err := once.Do(t.Context(), mutex(), c.get, c.after(time.Minute, "late"), holdfast.FixedLease(10*time.Second))
			paused <- err
		}()
		synctest.Wait()
		if got, err := once.Do(t.Context(), mutex(), c.get, c.after(0, "value")); got != "value" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if err := <-paused; !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, errOldToken) {
			t.Errorf("the paused one got %v, want ErrLost and the refusal of its token", err)
		}
		if c.value != "value" {
			t.Errorf("the cache has %q", c.value)
		}
	})
}

// Errors before a fill.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := errors.New("no rights")
		store := faulty.New()
		l := holdfast.New(store, nil)
		never := func(context.Context, *holdfast.Lock) (string, error) { t.Error("fill was called"); return "", nil }
		broken := func(context.Context) (string, once.State, error) { return "", once.Missing, own }
		if _, err := once.Do(t.Context(), l.Mutex("key"), broken, never); !errors.Is(err, own) {
			t.Errorf("the first get: %v", err)
		}
		var gets atomic.Int32
		second := func(context.Context) (string, once.State, error) {
			if gets.Add(1) == 1 {
				return "", once.Missing, nil
			}
			return "", once.Missing, own
		}
		if _, err := once.Do(t.Context(), l.Mutex("key"), second, never); !errors.Is(err, own) {
			t.Errorf("the second get: %v", err)
		}
		c, lock := &cache{}, must.Lock(t, l, "key")
		if _, err := once.Do(t.Context(), l.Mutex("key"), c.get, never, holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("after the wait: %v", err)
		}
		must.Unlock(t, lock)
		store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
			return driver.Outcome{}, errors.Join(own, driver.ErrRefused)
		}
		if _, err := once.Do(t.Context(), l.Mutex("key"), c.get, never); !errors.Is(err, own) {
			t.Errorf("the store refuses: %v", err)
		}
		c = &cache{value: "old", state: once.Stale}
		if got, err := once.Do(t.Context(), l.Mutex("key"), c.get, never); got != "old" || err != nil {
			t.Errorf("the store refuses, with a stale value: %q, %v", got, err)
		}
	})
}
