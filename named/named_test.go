package named_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/named"
)

const ttl = 6 * time.Second

// free reports whether a name has no holder in a store.
func free(t *testing.T, store *memhold.Backend, name string) bool {
	t.Helper()
	lock, err := holdfast.New(store, nil).TryLock(t.Context(), name)
	if err == nil {
		must.Unlock(t, lock)
	} else if !errors.Is(err, holdfast.ErrBusy) {
		t.Error(err)
	}
	return err == nil
}

// Two processes exclude each other's goroutines, and their own.
func TestExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, inside := memhold.New(), 0
		var all sync.WaitGroup
		for range 2 {
			locks := named.New(holdfast.New(store, nil), "certs/")
			for range 10 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if err := locks.Lock(ctx, "a.example"); err != nil {
						t.Error(err)
						return
					}
					if inside++; inside > 1 {
						t.Errorf("%d are inside", inside)
					}
					time.Sleep(time.Second)
					inside--
					cancel() // must not keep the Unlock from reaching the store
					if err := locks.Unlock(ctx, "a.example"); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if !free(t, store, "certs/a.example") {
			t.Error("the name is still taken")
		}
	})
}

func TestTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		locks, others := named.New(holdfast.New(store, nil), ""), named.New(holdfast.New(store, nil), "")
		if ok, err := locks.TryLock(t.Context(), "x"); !ok || err != nil {
			t.Errorf("a free name: %v, %v", ok, err)
		}
		if ok, err := others.TryLock(t.Context(), "x"); ok || err != nil {
			t.Errorf("a name that another holds: %v, %v", ok, err)
		}
		if err := others.Unlock(t.Context(), "x"); err == nil {
			t.Error("Unlock of what another holds returned nil")
		}
		if err := locks.Unlock(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if ok, err := locks.TryLock(ended, "x"); ok || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v, %v", ok, err)
		}
	})
}

// RenewLockLease and Unlock return a loss. The next Lock of the name is not affected by it.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		locks := named.New(holdfast.New(store, &holdfast.Options{TTL: ttl}), "")
		if err := locks.RenewLockLease(t.Context(), "x", time.Hour); err == nil {
			t.Error("RenewLockLease of what nobody holds returned nil")
		}
		takeAndLose(t, locks, store)
		if err := locks.RenewLockLease(t.Context(), "x", time.Hour); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("RenewLockLease: got %v, want ErrLost", err)
		}
		if err := locks.Lock(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := locks.Unlock(t.Context(), "x"); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of the lost hold: got %v, want ErrLost", err)
		}
		if free(t, store, "x") {
			t.Error("the Unlock of the lost hold has ended the next one")
		}
		if err := locks.Unlock(t.Context(), "x"); err != nil || !free(t, store, "x") {
			t.Errorf("Unlock of the next hold: %v, or the name is still taken", err)
		}
		time.Sleep(2 * ttl) // the end that was set for the next hold has no effect
	})
}

// If the Unlock of a lost hold never comes, the next hold is renewed for a TTL at most,
// also after several losses. Later holds are not affected.
func TestLostAndNeverUnlocked(t *testing.T) {
	for name, losses := range map[string]int{"one": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memhold.New()
				locks := named.New(holdfast.New(store, &holdfast.Options{TTL: ttl}), "")
				for range losses {
					takeAndLose(t, locks, store)
				}
				if err := locks.Lock(t.Context(), "x"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * ttl)
				if free(t, store, "x") {
					t.Error("the next hold has ended before its Unlock")
				}
				if err := locks.Unlock(t.Context(), "x"); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("got %v, want ErrLost of the oldest", err)
				}
				time.Sleep(ttl + 100*time.Millisecond)
				if !free(t, store, "x") {
					t.Error("the name is taken a TTL after the last Unlock")
					for range losses { // otherwise the test would not end
						_ = locks.Unlock(t.Context(), "x")
					}
					return
				}
				for range losses - 1 {
					_ = locks.Unlock(t.Context(), "x")
				}
				for range 3 {
					if err := locks.Lock(t.Context(), "x"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * ttl)
					if err := locks.Unlock(t.Context(), "x"); err != nil || !free(t, store, "x") {
						t.Errorf("a later hold: %v, or the name is still taken", err)
					}
				}
			})
		})
	}
}

// takeAndLose makes locks lose the name x, and waits until they have noticed.
func takeAndLose(t *testing.T, locks *named.Locks, store *memhold.Backend) {
	t.Helper()
	if err := locks.Lock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	store.Drop("x")
	time.Sleep(ttl)
}

// The calls of programs without names or contexts.
func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, nil)
		ctx, wait := t.Context(), holdfast.Wait(time.Second)
		keys, one := named.NewKeys(l, "key/", wait), named.NewOne(l.Mutex("one"), wait)
		db, session := named.NewDB(l.Mutex("db"), wait), named.NewSession(l.Mutex("session"), wait)
		for name, host := range map[string]struct{ lock, unlock func() error }{
			"key/x":   {func() error { return keys.Lock("x") }, func() error { return keys.Unlock("x") }},
			"one":     {one.Lock, one.Unlock},
			"db":      {func() error { return db.Lock(ctx, nil) }, func() error { return db.Unlock(ctx, nil) }},
			"session": {func() error { return session.SessionLock(ctx, nil) }, func() error { return session.SessionUnlock(ctx, nil) }},
		} {
			if err := host.lock(); err != nil || free(t, store, name) {
				t.Errorf("%s: %v, or it is free", name, err)
			}
			began := time.Now()
			err, want, took := host.lock(), holdfast.ErrBusy, time.Second
			if name == "one" {
				want, took = holdfast.ErrDeadlock, 0
			}
			if !errors.Is(err, want) || time.Since(began) != took {
				t.Errorf("%s, again: %v after %v, want %v", name, err, time.Since(began), want)
			}
			if err := host.unlock(); err != nil || !free(t, store, name) {
				t.Errorf("%s: Unlock %v, or it is still taken", name, err)
			}
			if err := host.unlock(); err == nil {
				t.Errorf("%s: a second Unlock returned nil", name)
			}
		}
	})
}

// The read side of a read-write lock excludes nobody.
func TestReadSideIsRefused(t *testing.T) {
	one := named.NewOne(holdfast.New(memhold.New(), nil).RWMutex("migrations").Read)
	if err := one.Lock(); err == nil || !strings.Contains(err.Error(), "use a Mutex") {
		t.Errorf("got %v, want an error that says to use a Mutex", err)
	}
}
