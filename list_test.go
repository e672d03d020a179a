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
	"github.com/holdfast-go/holdfast/memhold"
)

// bare is a store that can do nothing beyond locks.
type bare struct{ driver.Backend }

func TestListIsRefusedWhereTheStoreDoesNotTell(t *testing.T) {
	l := holdfast.New(bare{memhold.New()}, nil)
	n := 0
	for _, err := range l.List(t.Context(), admin.Filter{}) {
		if n++; !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("List: got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("List: got %d pairs, want the error alone", n)
	}
	if _, err := l.Look(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Look: got %v", err)
	}
	if _, err := l.Detail(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Detail: got %v", err)
	}
	if err := l.Heed(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Heed: got %v", err)
	}
}

// hinting is a store that passes on hints.
type hinting struct {
	*memhold.Backend
	hints chan string
}

func (b hinting) Notify(ctx context.Context, _ string, hint func(string)) error {
	for {
		select {
		case owner := <-b.hints:
			hint(owner)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A hint makes the Locker look at once; it proves nothing by itself.
func TestHeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hinting{memhold.New(), make(chan string)}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		heeded := make(chan error, 1)
		go func() { heeded <- l.Heed(ctx) }()

		k, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		holders, err := l.Inspect(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		store.hints <- holders[0].Owner
		store.hints <- "somebody else"
		time.Sleep(time.Second)
		if err := k.Err(); err != nil {
			t.Errorf("after a false hint: got %v, want it held", err)
		}
		if err := l.Break(t.Context(), "a", holders[0], "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := k.Err(); err != nil {
			t.Errorf("before the hint: got %v, want nothing known yet", err)
		}
		store.hints <- holders[0].Owner
		time.Sleep(time.Second)
		var lost *holdfast.LostError
		if err := k.Err(); !errors.As(err, &lost) || lost.Reason != driver.Forced {
			t.Errorf("after the hint: got %v, want it forced", err)
		}
		cancel()
		if err := <-heeded; !errors.Is(err, context.Canceled) {
			t.Errorf("Heed: got %v, want its context's error", err)
		}
	})
}
