package holdfast_test

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
)

// hangs makes the store answer no try.
func hangs(store *faulty.Store) {
	store.Change(func() {
		store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
			return driver.Outcome{}, faulty.Hang(ctx)
		}
	})
}

// The time in the queue of this process counts as time of the option Wait.
func TestWaitCountsTheLocalQueue(t *testing.T) {
	for name, tombstones := range map[string]bool{"with tombstones": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				var b driver.Backend = store
				if !tombstones {
					b = lacking{store, func(c *driver.Caps) { c.Tombstones = false }}
				}
				l := holdfast.New(b, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
				held := must.Lock(t, l, "a")
				time.AfterFunc(290*time.Millisecond, func() {
					must.Unlock(t, held)
				})
				hangs(store)
				began := time.Now()
				_, err := l.TryLock(t.Context(), "a", holdfast.Wait(300*time.Millisecond))
				between(t, "Wait(300ms) took", time.Since(began), 300*time.Millisecond, 345*time.Millisecond) // one round trip, and the time for the removal of the claim
				if err == nil || errors.Is(err, holdfast.ErrBusy) {
					t.Errorf("got %v, want that the store does not answer", err)
				}
				store.Change(func() { store.OnTry = nil })
				must.Drain(t, l)
			})
		})
	}
}

// When the time of Wait is over, the error is ErrBusy only if that was the last answer of
// the store. It is never the error of a context, because the caller's context has not
// ended.
func TestErrorWhenWaitRunsOut(t *testing.T) {
	const wait = 3 * time.Second
	errReset := errors.New("connection reset")
	reset := func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, errReset }
	hang := func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
		return driver.Outcome{}, faulty.Hang(ctx)
	}
	for name, test := range map[string]struct {
		held  bool // the store answers that the lock is held, at first
		then  func(context.Context, driver.Claim) (driver.Outcome, error)
		local bool // another goroutine of the process asks the store
		busy  bool
		want  error
		text  string
	}{
		"busy":                          {held: true, busy: true},
		"busy, by the head":             {held: true, local: true, busy: true},
		"busy, then it hangs":           {held: true, then: hang, text: "no answer"},
		"hangs":                         {then: hang, text: "no answer"},
		"hangs, as the head learns":     {then: hang, local: true, text: "no answer"},
		"fails":                         {then: reset, want: errReset},
		"fails, as the head learns":     {then: reset, local: true, want: errReset},
		"busy, then it fails":           {held: true, then: reset, want: errReset},
		"busy, then the head sees that": {held: true, then: reset, local: true, want: errReset},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
				if test.held {
					defer must.Unlock(t, must.Lock(t, other, "a"))
				}
				fail := func() { store.Change(func() { store.OnTry = test.then }) }
				if !test.held {
					fail()
				}
				if test.local {
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						_, _ = l.Lock(ctx, "a")
					}()
					defer func() { cancel(); <-ended }()
					synctest.Wait()
				}
				if test.then != nil {
					time.AfterFunc(time.Second/2, fail)
				}
				_, err := l.TryLock(t.Context(), "a", holdfast.Wait(wait))
				if errors.Is(err, holdfast.ErrBusy) != test.busy {
					t.Errorf("got %v, want ErrBusy: %t", err, test.busy)
				}
				if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("got %v, and the context of the caller has not ended", err)
				}
				if test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want %v %s", err, test.want, test.text)
				}
				store.Change(func() { store.OnTry = nil })
			})
		})
	}
}

// If other goroutines of the process get the lock repeatedly, it is busy, also at a moment
// in which one of them asks the store for it.
func TestWaitBehindOthersIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			time.Sleep(15 * time.Millisecond)
			return store.Backend.Try(ctx, c)
		}
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for {
					lock, err := l.Lock(ctx, "a")
					if err != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
					must.Unlock(t, lock)
				}
			})
		}
		time.Sleep(time.Second)
		for ctx.Err() == nil {
			lock, err := l.TryLock(t.Context(), "a", holdfast.Wait(217*time.Millisecond))
			if err == nil { // the others have just ended
				must.Unlock(t, lock)
			} else if !errors.Is(err, holdfast.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		}
		wg.Wait()
		must.Drain(t, l)
	})
}

// A goroutine that waits rarely asks the store. The last answer to it counts for the
// goroutines behind it, however short they wait, also for another goroutine of the same
// owner.
func TestWaitBehindOneThatWaitsIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
		held := must.Lock(t, other, "a")
		for what, ctx := range map[string]context.Context{"a process": t.Context(), "an owner": holdfast.WithOwner(t.Context())} {
			waiting, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = l.Lock(waiting, "a")
			}()
			time.Sleep(3 * time.Second)
			for _, wait := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
				var busy *holdfast.BusyError
				if _, err := l.TryLock(ctx, "a", holdfast.Wait(wait)); !errors.As(err, &busy) || busy.Remaining <= 0 {
					t.Errorf("%s, Wait(%v): got %v, want ErrBusy with the end of the lease", what, wait, err)
				}
			}
			cancel()
			<-ended
		}
		must.Unlock(t, held)
		must.Drain(t, l)
	})
}

// While one goroutine of an owner has no answer of the store, another one does not report
// busy.
func TestWaitBehindTheOwnerWithoutAnswer(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(store, nil)
			ctx := holdfast.WithOwner(t.Context())
			if again {
				lock, err := l.Lock(ctx, "a")
				if err != nil {
					t.Fatal(err)
				}
				defer must.Unlock(t, lock)
			}
			hangs(store)
			store.Change(func() {
				store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
			})
			first, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = l.Lock(first, "a")
			}()
			synctest.Wait()
			if _, err := l.TryLock(ctx, "a", holdfast.Wait(time.Second)); err == nil || errors.Is(err, holdfast.ErrBusy) || !strings.Contains(err.Error(), "no answer") {
				t.Errorf("re-entry %t: got %v, want that there was no answer", again, err)
			}
			cancel()
			<-ended
			store.Change(func() { store.OnTry, store.OnRenew = nil, nil })
			must.Drain(t, l)
		})
	}
}

// A re-entry, and a caller that does not wait, return the same error if the store hangs.
func TestNoErrorOfAContextThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		ctx := holdfast.WithOwner(t.Context())
		lock := must.Lock(t, l, "other")
		outer, err := l.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		hangs(store)
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) {
				return nil, faulty.Hang(ctx)
			}
		})
		for what, call := range map[string]func() (*holdfast.Lock, error){
			"re-entry": func() (*holdfast.Lock, error) { return l.TryLock(ctx, "a", holdfast.Wait(time.Second)) },
			"TryLock":  func() (*holdfast.Lock, error) { return l.TryLock(t.Context(), "b") },
		} {
			if _, err := call(); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer") {
				t.Errorf("%s: got %v, want that there was no answer", what, err)
			}
		}
		store.Change(func() { store.OnTry, store.OnRenew = nil, nil })
		must.Unlock(t, outer)
		must.Unlock(t, lock)
		must.Drain(t, l)
	})
}

// A lease that is too short for the store is an error after some tries, and the name is
// free for others then.
func TestLeaseTooShortForTheStore(t *testing.T) {
	for name, test := range map[string]struct {
		ttl     time.Duration
		opts    []holdfast.Option
		honours bool // calls end with their contexts
	}{
		"Lease":                      {0, []holdfast.Option{holdfast.Lease(100 * time.Millisecond)}, false},
		"Lease, calls that are over": {0, []holdfast.Option{holdfast.Lease(100 * time.Millisecond)}, true},
		"TTL":                        {100 * time.Millisecond, nil, false},
		"TTL, calls that are over":   {100 * time.Millisecond, nil, true},
		"of one trip":                {0, []holdfast.Option{holdfast.Lease(50 * time.Millisecond)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				trip := func(ctx context.Context) error {
					if !test.honours {
						ctx = context.WithoutCancel(ctx)
					}
					return sleep(ctx, 30*time.Millisecond)
				}
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					if err := trip(ctx); err != nil {
						return driver.Outcome{}, err
					}
					out, err := store.Backend.Try(ctx, c)
					if err := trip(ctx); err != nil {
						return driver.Outcome{}, err
					}
					return out, err
				}
				l, near := holdfast.New(store, &holdfast.Options{TTL: test.ttl}), holdfast.New(store.Backend, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := l.Lock(ctx, "a", test.opts...)
				if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "of a lease of") {
					t.Fatalf("got %v after %v, want that the lease is too short", err, time.Since(began))
				}
				least, most := time.Duration(0), time.Second
				if test.ttl != 0 { // the store may be slow only now
					least, most = 10*time.Second, 15*time.Second
				}
				between(t, "the error came after", time.Since(began), least, most)
				must.Drain(t, l)
				must.Unlock(t, must.Lock(t, near, "a"))
			})
		})
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A claim was granted in an answer that was lost, and then ended by force. The acquire asks
// again, because its caller never had the lock.
func TestForcedBeforeItsCallerKnew(t *testing.T) {
	for name, opts := range map[string][]holdfast.Option{"Lock": nil, "Lease": {holdfast.Lease(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				forced := ""
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					switch forced {
					case "":
						out, err := store.Backend.Try(ctx, c)
						if err != nil || !out.Granted {
							t.Fatalf("got %+v, %v", out, err)
						}
						if err := store.ForceUnlock(ctx, c.Name, holders(t, store, c.Name)[0], "stuck"); err != nil {
							t.Fatal(err)
						}
						forced = c.Owner
						return driver.Outcome{}, errors.New("connection reset")
					case c.Owner: // as Redis answers
						return driver.Outcome{}, &driver.GoneError{Reason: driver.ReasonForced}
					}
					return store.Backend.Try(ctx, c)
				}
				l := holdfast.New(store, nil)
				must.Unlock(t, must.Lock(t, l, "a", opts...))
				must.Drain(t, l)
				mustBeFree(t, store, "a")
			})
		})
	}
}
