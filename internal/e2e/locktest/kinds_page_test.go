package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// The code of docs/kinds.md runs: in examples with an output, and below.
func TestKindsOfThePage(t *testing.T) {
	pages.Within(t, "docs/kinds.md", "go", "example_test.go", "quorum/example_test.go", "internal/e2e/locktest/kinds_page_test.go")
}

// takeSeat has lines of docs/kinds.md.
func takeSeat(ctx context.Context, store *redishold.Backend, sit func(context.Context) error) error {
	seats := store.PlainSemaphore("seats")
	if err := seats.Acquire(ctx, 1); err != nil {
		return err
	}
	return errors.Join(sit(ctx), seats.Release(context.WithoutCancel(ctx), 1))
}

func TestPlainSemaphoreOfThePage(t *testing.T) {
	conn, shut, err := dial.Server(dial.Adapters()[0], redistest.Start(t).Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	ctx, store := await.Context(t, 10*time.Second), redishold.New(conn, nil)
	seats := store.PlainSemaphore("seats")
	if set, err := seats.TrySet(ctx, 1); !set || err != nil {
		t.Fatalf("TrySet: got %v and error %v", set, err)
	}
	full := errors.New("full")
	err = takeSeat(ctx, store, func(ctx context.Context) error {
		if taken, err := seats.TryAcquire(ctx, 1); taken || err != nil {
			t.Errorf("second seat of one: got %v and error %v", taken, err)
		}
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v, want the error of the function", err)
	}
	if free, err := seats.Available(ctx); free != 1 || err != nil {
		t.Errorf("afterwards %d seats are free, error %v, want 1", free, err)
	}
}
