package mutextest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// The programs of docs/migrating-java.md.

func newSharedLocker(rdb *redis.Client) *holdfast.Locker {
	return goredisconn.Locker(rdb, nil) // Redisson's layout, and its TTL of 30 s
}

func shipWithHoldfast(ctx context.Context, locker *holdfast.Locker, ship func(context.Context) error) error {
	return locker.Mutex("stock:42").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return ship(ctx) // ctx ends when the lock is lost
	}, holdfast.Wait(10*time.Second)) // after that the error is holdfast.ErrBusy
}

func shipStepByStep(ctx context.Context, locker *holdfast.Locker, ship func(context.Context) error) error {
	lock, err := locker.Mutex("stock:42").Lock(ctx, holdfast.Wait(10*time.Second))
	if errors.Is(err, holdfast.ErrBusy) {
		return nil // Java's tryLock returned false
	}
	if err != nil {
		return err
	}
	return errors.Join(ship(lock.Context(ctx)), lock.Unlock())
}

// sharedLocker returns the Locker of the page on a server. It is drained when t ends.
func sharedLocker(t *testing.T, server *redistest.Server) *holdfast.Locker {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	l := newSharedLocker(rdb)
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

// Threads of Java, and programs in Go that replace them, take a lock in turns. Then the program
// of the page waits for Go.
func TestFromRedisson(t *testing.T) {
	server := redistest.Start(t)
	jvm := redisson.Start(t, redisson.Newest, redisson.At(server.Addr()))
	locker := sharedLocker(t, server)
	rollover.Test(t,
		rollover.Peer(jvm, peer.Command{Op: "lock", Name: "stock:42"}, peer.Command{Op: "unlock", Name: "stock:42"}),
		func(ctx context.Context, ship func(context.Context) error) error {
			return shipWithHoldfast(ctx, locker, ship)
		},
	)
	var during error
	err := shipStepByStep(t.Context(), locker, func(ctx context.Context) error {
		_, during = locker.TryLock(t.Context(), "stock:42")
		return ctx.Err()
	})
	if err != nil || !errors.Is(during, holdfast.ErrBusy) {
		t.Errorf("step by step: got %v, and %v from a second call during the work, want nil and ErrBusy", err, during)
	}
	lock := must.Lock(t, locker, "stock:42")
	j := redisson.ThreadOf(t, jvm, "page")
	answer := j.Begin(peer.Command{Op: "migration"})
	j.AwaitSleep()
	if !answer.Waits() {
		t.Error("Java did not wait for Go")
	}
	must.Unlock(t, lock)
	if !answer.Wait().Bool() {
		t.Error("Java has not shipped after Go's unlock")
	}
}
