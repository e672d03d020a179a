package migratingtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// What the page says of the libraries.
func TestReleasesOfTheLibrariesNeedTheirContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := client(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := redislock.Obtain(ctx, rdb, "redislock", time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	mutex := newRedsyncShop(rdb, nil).locks.NewMutex("redsync")
	if err := mutex.LockContext(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := lock.Release(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("redislock: got error %v, want that of the context", err)
	}
	if ok, err := mutex.UnlockContext(ctx); ok || err == nil {
		t.Errorf("redsync: got %v and error %v, want false and an error", ok, err)
	}
	if n := server.Int("EXISTS", "redislock", "redsync"); n != 2 {
		t.Errorf("%d locks are left, want both", n)
	}
}

func TestWaitersOfRedsyncLoseTheErrorOfTheirContext(t *testing.T) {
	t.Parallel()
	rdb := client(t, redistest.Start(t))
	locks := newRedsyncShop(rdb, nil).locks
	if err := locks.NewMutex("stock").LockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := locks.NewMutex("stock").LockContext(ctx); !errors.Is(err, redsync.ErrFailed) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want only ErrFailed", err)
	}
}
