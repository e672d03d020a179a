package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// holders returns the holders of name, as the store lists them.
func holders(t *testing.T, b admin.Source, name string) []admin.Holder {
	t.Helper()
	records, err := b.Get(context.Background(), name)
	if err != nil {
		t.Fatalf("Get(%q): %v", name, err)
	}
	var hs []admin.Holder
	for _, h := range records[0].Holds {
		hs = append(hs, h.Holder)
	}
	return hs
}

// mustBeFree fails unless name has no holder.
func mustBeFree(t *testing.T, b admin.Source, name string) {
	t.Helper()
	if hs := holders(t, b, name); len(hs) != 0 {
		t.Fatalf("%q is held by %+v, want nobody", name, hs)
	}
}

// between fails unless lo <= got <= hi.
func between(t *testing.T, what string, got, lo, hi time.Duration) {
	t.Helper()
	if got < lo || got > hi {
		t.Fatalf("%s: got %v, want %v to %v", what, got, lo, hi)
	}
}

// A caller that gives up gets the last answer of the store, also if later calls had none.
func TestLastAnswerOfTheStore(t *testing.T) {
	notNow := errors.New("READONLY")
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.Change(func() {
			said := false
			store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
				if !said {
					said = true
					return driver.Outcome{}, notNow
				}
				<-ctx.Done()
				return driver.Outcome{}, ctx.Err()
			}
		})
		l := holdfast.New(store, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := l.Lock(ctx, "job"); !errors.Is(err, notNow) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error and what the store said", err)
		}
	})
}

// The client of a store may end a call at its deadline by a timer of its own. That is no
// failure of the store: the lock is busy.
func TestLastTryEndsWithTheWait(t *testing.T) {
	for range 50 { // the timers of one moment fire in any order
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(store, nil)
			held := must.Lock(t, holdfast.New(store, nil), "job")
			store.Change(func() {
				answers := 1
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					if answers--; answers >= 0 {
						return store.Backend.Try(ctx, c)
					}
					ends, _ := ctx.Deadline()
					time.Sleep(time.Until(ends))
					return driver.Outcome{}, context.DeadlineExceeded
				}
			})
			_, err := l.TryLock(t.Context(), "job", holdfast.Wait(1200*time.Millisecond))
			if busy := new(holdfast.BusyError); !errors.As(err, &busy) {
				t.Errorf("got %v, want a BusyError", err)
			}
			must.Unlock(t, held)
			must.Drain(t, l)
		})
	}
}
