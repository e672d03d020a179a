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

// finalErrors are those that waiting cannot fix.
var finalErrors = map[string]error{
	"refused":     fmt.Errorf("%w: NOPERM", driver.ErrRefused),
	"mismatch":    fmt.Errorf("%w: a list", driver.ErrMismatch),
	"unsupported": fmt.Errorf("no such lock: %w", errors.ErrUnsupported),
}

// A refusal is what the caller has to know, also where it arrives after the
// caller's time is over.
func TestRefusalThatArrivesLate(t *testing.T) {
	short := func(parent context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(parent, 10*time.Millisecond)
	}
	for name, want := range finalErrors {
		for call, lock := range map[string]func(context.Context, *holdfast.Locker) error{
			"Wait": func(ctx context.Context, l *holdfast.Locker) error {
				_, err := l.Lock(ctx, "job", holdfast.Wait(10*time.Millisecond))
				return err
			},
			"TryLock": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := l.TryLock(ctx, "job")
				return err
			},
			"Lock": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := l.Lock(ctx, "job")
				return err
			},
			"fair": func(ctx context.Context, l *holdfast.Locker) error {
				_, err := l.FairMutex("job").Lock(ctx, holdfast.Wait(10*time.Millisecond))
				return err
			},
			"permit": func(ctx context.Context, l *holdfast.Locker) error {
				_, err := l.Semaphore("job", 1).Acquire(ctx, holdfast.Wait(10*time.Millisecond))
				return err
			},
			"LockAll": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")})
				return err
			},
			"LockAll under an owner": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(holdfast.WithOwner(ctx))
				defer cancel()
				_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")})
				return err
			},
			"Set": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := l.CountDownLatch("job").TrySet(ctx, 1)
				return err
			},
			"Resize": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				return l.Semaphore("job", 1).Resize(ctx, 2)
			},
		} {
			t.Run(call+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := holdfast.New(&refusing{Store: faulty.New(), err: want, after: 15 * time.Millisecond}, nil)
					start := time.Now()
					err := lock(t.Context(), l)
					if !errors.Is(err, want) {
						t.Errorf("got %v, want what the store said", err)
					}
					between(t, "answered", time.Since(start), 10*time.Millisecond, 35*time.Millisecond)
				})
			})
		}
	}
}

// refusing answers every call with an error, after a while: before ctx looks, as an
// answer does that is on its way when ctx ends.
type refusing struct {
	*faulty.Store
	err   error
	after time.Duration
}

func (r *refusing) Try(context.Context, driver.Claim) (driver.Outcome, error) {
	time.Sleep(r.after)
	return driver.Outcome{}, r.err
}

func (r *refusing) TryAll(_ context.Context, cs []driver.Claim) []driver.Attempt {
	time.Sleep(r.after)
	answers := make([]driver.Attempt, len(cs))
	for i := range answers {
		answers[i].Err = r.err
	}
	return answers
}

func (r *refusing) SetCount(context.Context, string, string, int64) (bool, error) {
	time.Sleep(r.after)
	return false, r.err
}

func (r *refusing) Resize(context.Context, string, int) error {
	time.Sleep(r.after)
	return r.err
}

// The same holds for a refusal after other errors, or after the lock was busy.
func TestRefusalAfterOtherAnswers(t *testing.T) {
	before := map[string]func() (driver.Outcome, error){
		"busy":     func() (driver.Outcome, error) { return driver.Outcome{Holder: "somebody"}, nil },
		"not sent": func() (driver.Outcome, error) { return driver.Outcome{}, driver.ErrNotExecuted },
	}
	for name, want := range finalErrors {
		for first, answer := range before {
			t.Run(first+", then "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty.New()
					n := 0
					store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
						if n++; n == 1 {
							return answer()
						}
						time.Sleep(3 * time.Second)
						return driver.Outcome{}, want
					}
					l := holdfast.New(store, nil)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					if _, err := l.Lock(ctx, "job"); !errors.Is(err, want) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("context over: got %v, want what the store said, and the context's error", err)
					}
					n = 0
					if _, err := l.Lock(t.Context(), "job", holdfast.Wait(2*time.Second)); !errors.Is(err, want) || errors.Is(err, holdfast.ErrBusy) {
						t.Errorf("Wait over: got %v, want what the store said", err)
					}
				})
			})
		}
	}
}

// The same holds for the refusal of a re-entry.
func TestRefusalOfAReentry(t *testing.T) {
	for name, want := range finalErrors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, nil)
				ctx := holdfast.WithOwner(t.Context())
				lock, err := l.Lock(ctx, "job")
				if err != nil {
					t.Fatal(err)
				}
				store.Change(func() {
					store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
						time.Sleep(15 * time.Millisecond)
						return nil, want
					}
				})
				for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
					if _, err := l.TryLock(ctx, "job", holdfast.Wait(wait)); !errors.Is(err, want) {
						t.Errorf("Wait(%v): got %v, want what the store said", wait, err)
					}
				}
				must.Unlock(t, lock)
				mustBeFree(t, store, "job")
			})
		})
	}
}
