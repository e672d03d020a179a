package memhold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// The rows of the table in docs/testing.md.

// drain waits until a Locker has nothing to release in the background any more.
func drain(t *testing.T, l *holdfast.Locker) {
	t.Helper()
	if err := l.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// The holder is notified of each loss in the time of the table, with the reason of the table.
func TestLossesOfTheTable(t *testing.T) {
	for name, loss := range map[string]struct {
		lose   func(t *testing.T, store *memhold.Backend)
		fault  func(*memhold.Conn) // in place of lose
		reason driver.Reason
		within time.Duration
	}{
		"Drop": {func(t *testing.T, store *memhold.Backend) {
			if !store.Drop("stock:42") {
				t.Error("there was nothing to drop")
			}
		}, nil, driver.ReasonDeleted, 10 * time.Second},
		"ForceUnlock": {func(t *testing.T, store *memhold.Backend) {
			records, err := store.Get(t.Context(), "stock:42")
			if err == nil {
				err = store.ForceUnlock(t.Context(), "stock:42", records[0].Holds[0].Holder, "it hung")
			}
			if err != nil {
				t.Error(err)
			}
		}, nil, driver.ReasonForced, 10 * time.Second},
		"Cut":                 {nil, (*memhold.Conn).Cut, driver.ReasonUnreachable, 27 * time.Second},
		"Fail ErrNotExecuted": {nil, func(conn *memhold.Conn) { conn.Fail(driver.ErrNotExecuted) }, driver.ReasonUnreachable, 27 * time.Second},
		"Fail ErrRefused":     {nil, func(conn *memhold.Conn) { conn.Fail(driver.ErrRefused) }, driver.ReasonRefused, 27 * time.Second},
		"LoseAnswers":         {nil, (*memhold.Conn).LoseAnswers, driver.ReasonUnreachable, 27 * time.Second},
		"Delay":               {nil, func(conn *memhold.Conn) { conn.Delay(5 * time.Second) }, driver.ReasonUnreachable, 27 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memhold.New()
				conn := store.Connect()
				locker := holdfast.New(conn, nil)
				lock := must.Lock(t, locker, "stock:42")
				start := time.Now()
				if loss.fault != nil {
					loss.fault(conn)
				} else {
					loss.lose(t, store)
				}
				<-lock.Context(t.Context()).Done()
				if took := time.Since(start); took > loss.within {
					t.Errorf("the loss came after %v, want %v at most", took, loss.within)
				}
				var lost *holdfast.LostError
				if err := lock.Unlock(); !errors.As(err, &lost) || lost.Reason != loss.reason {
					t.Errorf("got %v, want the reason %s", err, loss.reason)
				}
				drain(t, locker)
			})
		})
	}
}

// The calls for a lock take the time of the table, and return its errors. Nothing stays behind.
func TestAcquiresOfTheTable(t *testing.T) {
	const wait = 10 * time.Second
	for name, fault := range map[string]struct {
		begin      func(*memhold.Conn)
		want       error         // nil: an error of the store
		try, until time.Duration // how long TryLock takes at most, and Lock with Wait
	}{
		"Cut":                 {(*memhold.Conn).Cut, nil, 4 * time.Second, wait},
		"LoseAnswers":         {(*memhold.Conn).LoseAnswers, nil, 4 * time.Second, wait},
		"Delay":               {func(conn *memhold.Conn) { conn.Delay(5 * time.Second) }, nil, 4 * time.Second, wait},
		"Fail ErrNotExecuted": {func(conn *memhold.Conn) { conn.Fail(driver.ErrNotExecuted) }, driver.ErrNotExecuted, 30 * time.Millisecond, wait},
		"Fail ErrRefused":     {func(conn *memhold.Conn) { conn.Fail(driver.ErrRefused) }, driver.ErrRefused, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memhold.New()
				conn := store.Connect()
				locker := holdfast.New(conn, nil)
				fault.begin(conn)
				took := func(what string, most time.Duration, acquire func() (*holdfast.Lock, error)) error {
					start := time.Now()
					_, err := acquire()
					if err == nil || errors.Is(err, holdfast.ErrBusy) || fault.want != nil && !errors.Is(err, fault.want) {
						t.Errorf("%s: got %v, want an error of the store", what, err)
					}
					if most == wait {
						most += 25 * time.Millisecond // in which a call that gives up waits for the removal of its claim
					}
					if took := time.Since(start); took > most || took < most/2 {
						t.Errorf("%s took %v, want %v", what, took, most)
					}
					return err
				}
				_ = took("TryLock", fault.try, func() (*holdfast.Lock, error) { return locker.TryLock(t.Context(), "stock:42") })
				_ = took("Lock with Wait", fault.until, func() (*holdfast.Lock, error) {
					return locker.Lock(t.Context(), "stock:42", holdfast.Wait(wait))
				})
				err := took("Lock with a context", fault.until, func() (*holdfast.Lock, error) {
					ctx, cancel := context.WithTimeout(t.Context(), wait)
					defer cancel()
					return locker.Lock(ctx, "stock:42")
				})
				if fault.until > 0 && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the error of the context", err)
				}
				conn.Restore()
				drain(t, locker)
				must.Unlock(t, must.Lock(t, holdfast.New(store, nil), "stock:42", holdfast.Wait(0)))
			})
		})
	}
}

// With less than a second for each call, a lock only takes longer.
func TestSlowStoreOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 900 * time.Millisecond
		conn := memhold.New().Connect()
		conn.Delay(delay)
		locker := holdfast.New(conn, nil)
		start := time.Now()
		lock := must.Lock(t, locker, "stock:42")
		if took := time.Since(start); took < delay {
			t.Errorf("Lock took %v, want %v at least", took, delay)
		}
		time.Sleep(time.Hour)
		start = time.Now()
		must.Unlock(t, lock)
		if took := time.Since(start); took < delay {
			t.Errorf("Unlock took %v, want %v at least", took, delay)
		}
		drain(t, locker)
	})
}

// With more than a second, Unlock has no answer, and the lock is free after Drain.
func TestSlowUnlockOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		conn := store.Connect()
		conn.Delay(1100 * time.Millisecond)
		locker := holdfast.New(conn, nil)
		if err := must.Lock(t, locker, "stock:42").Unlock(); err == nil || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v, want a release that is not confirmed", err)
		}
		drain(t, locker)
		must.Unlock(t, must.Lock(t, holdfast.New(store, nil), "stock:42", holdfast.Wait(0)))
	})
}

// Another process gets the lock of a dead one when the lease has ended, and not earlier.
func TestDeadProcessOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		conn := store.Connect()
		dead, alive := holdfast.New(conn, nil), holdfast.New(store, nil)
		_ = must.Lock(t, dead, "stock:42")
		conn.Cut()
		start := time.Now()
		must.Unlock(t, must.Lock(t, alive, "stock:42"))
		if took := time.Since(start); took < 30*time.Second || took > 30*time.Second+10*time.Millisecond {
			t.Errorf("took %v, want 30s", took)
		}
		drain(t, dead)
	})
}
