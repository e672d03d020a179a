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
)

// holders returns who the store says holds name.
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

// mustBeFree fails unless nobody holds name.
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

// A caller that gives up gets what the store said last, also if it has not answered since.
func TestLastWordsOfTheStore(t *testing.T) {
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
