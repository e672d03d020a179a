package holdfast

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/memhold"
)

// An owner that lives for long keeps only what it holds.
func TestOwnerForgetsLostLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		for i := range 10 {
			name := fmt.Sprint("job:", i)
			k, err := l.Lock(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if _, err := l.Lock(ctx, name); err != nil {
					t.Fatal(err)
				}
			}
			store.Drop(name)
			<-k.Context(t.Context()).Done()
			_ = k.Unlock()
		}
		if n := len(ownerOf(ctx).locks); n != 0 {
			t.Errorf("ten locks were lost and unlocked, and %d are remembered", n)
		}
		time.Sleep(time.Minute)
	})
}

// A re-entry was confirmed after the deadline.
func TestReentryIsNeverALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job", FixedLease(10*time.Second))
		time.Sleep(8900 * time.Millisecond)
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				time.Sleep(200 * time.Millisecond)
				return store.Backend.Renew(ctx, cs)
			}
		})
		again, err := l.Lock(ctx, "job")
		if err == nil && again.Err() != nil {
			t.Errorf("Lock returned nil error and a lock that is %v", again.Err())
		}
		_ = lock.Unlock()
	})
}

func TestLoweredCountIsRecordedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job")
		_, _ = l.Lock(ctx, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		store.Change(func() { store.OnRenew = nil })
		time.Sleep(15 * time.Second)
		records, _ := store.Get(ctx, "job")
		if records[0].Holds[0].Holds != 1 {
			t.Errorf("count in the store: %d, want 1", records[0].Holds[0].Holds)
		}
		_ = lock.Unlock()
	})
}

func TestReentryHonoursWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				return nil, driver.ErrNotExecuted
			}
		})
		start := time.Now()
		_, err := l.TryLock(ctx, "job", Wait(100*time.Millisecond))
		if d := time.Since(start); d > time.Second {
			t.Errorf("TryLock(Wait(100ms)) took %v: %v", d, err)
		}
		_ = lock.Unlock()
	})
}

// The claim of the writer's own read side waited in the queue behind readers that waited
// for that writer.
func TestDowngradeDoesNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(newRW(), nil)
		m := l.RWMutex("doc")
		tree := WithOwner(t.Context())
		w, err := m.Write.Lock(tree)
		if err != nil {
			t.Fatal(err)
		}
		go func() { k, _ := m.Read.Lock(t.Context()); _ = k.Unlock() }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(tree, time.Hour)
		defer cancel()
		r, err := m.Read.Lock(ctx)
		if err != nil {
			t.Errorf("downgrade: %v", err)
		}
		_ = r.Unlock()
		_ = w.Unlock()
		time.Sleep(time.Minute)
	})
}
