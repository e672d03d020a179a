//go:build unix

package sqltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
)

// AdvisoryLock is what the advisory locks of all databases can do.
type AdvisoryLock interface {
	// Context ends with ctx and with the hold.
	Context(ctx context.Context) context.Context
	// Err says why the hold has ended.
	Err() error
	// Unlock ends it.
	Unlock() error
}

// MustBeLost requires that the loss is noticed, and that Unlock reports it.
func MustBeLost(t *testing.T, lock AdvisoryLock, within time.Duration, why driver.Reason) {
	t.Helper()
	ctx := lock.Context(t.Context())
	select {
	case <-ctx.Done():
	case <-time.After(within):
		t.Errorf("the loss was not noticed within %v", within)
	}
	for what, err := range map[string]error{"context": context.Cause(ctx), "Err": lock.Err(), "Unlock": lock.Unlock()} {
		var lost *holdfast.LostError
		if !errors.As(err, &lost) || lost.Reason != why {
			t.Errorf("%s after the loss: got %v, want a LostError, %s", what, err, why)
		}
	}
}

// Advisory is one advisory lock of a database, which nobody holds.
type Advisory struct {
	// Try and Lock take it, each over a connection of its own.
	Try, Lock func(ctx context.Context) (AdvisoryLock, error)
	// Sessions counts those that hold it, and those that wait.
	Sessions func(t *testing.T) (held, waiting int)
	// Late is how long the server may count a hold that has ended.
	Late time.Duration
}

// Taken returns what TryAdvisory and LockAdvisory return, without a lock where they fail.
func Taken[L AdvisoryLock](lock L, err error) (AdvisoryLock, error) {
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// Test is about the lock and its waiters.
func (a Advisory) Test(t *testing.T) {
	t.Run("excludes", a.excludes)
	t.Run("waits", a.waits)
	t.Run("cancelled", a.cancelled)
	t.Run("cancelled at the grant", a.cancelledAtTheGrant)
}

// Take takes the lock.
func (a Advisory) Take(t *testing.T) AdvisoryLock {
	t.Helper()
	lock, err := a.Lock(await.Context(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// Outcome is what came of a wait.
type Outcome struct {
	lock AdvisoryLock
	Err  error
}

// MustUnlock requires that the lock was granted, and releases it.
func (o Outcome) MustUnlock(t *testing.T) {
	t.Helper()
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if err := o.lock.Unlock(); err != nil {
		t.Error(err)
	}
}

// Queue has one more wait by lock, and sends what came of it.
func (a Advisory) Queue(ctx context.Context, t *testing.T, lock func(context.Context) (AdvisoryLock, error)) <-chan Outcome {
	t.Helper()
	_, before := a.Sessions(t)
	got := make(chan Outcome, 1)
	go func() {
		lock, err := lock(ctx)
		got <- Outcome{lock, err}
	}()
	await.Until(t, 5*time.Second, "one more waits", func() bool {
		_, waiting := a.Sessions(t)
		return waiting == before+1
	})
	return got
}

// Free requires that nobody holds the lock or waits for it.
func (a Advisory) Free(t *testing.T) {
	t.Helper()
	await.Until(t, a.Late, "nobody holds the lock or waits for it", func() bool {
		held, waiting := a.Sessions(t)
		return held == 0 && waiting == 0
	})
}

func (a Advisory) excludes(t *testing.T) {
	lock, ctx := a.Take(t), await.Context(t, 10*time.Second)
	if _, err := a.Try(ctx); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryAdvisory beside a holder: got %v, want ErrBusy", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
		t.Errorf("second Unlock: got %v, want ErrUnlocked", err)
	}
	next, err := a.Try(ctx)
	Outcome{next, err}.MustUnlock(t)
	a.Free(t)
}

func (a Advisory) waits(t *testing.T) {
	lock := a.Take(t)
	got := a.Queue(t.Context(), t, a.Lock)
	await.Never(t, 1500*time.Millisecond, "the wait is over, which is longer than a call of GET_LOCK", func() bool { return len(got) > 0 })
	began := await.NewWatch(t)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	next := <-got
	if took := began.Took(); took > 500*time.Millisecond {
		t.Errorf("granted %v after the release", took)
	}
	next.MustUnlock(t)
}

func (a Advisory) cancelled(t *testing.T) {
	lock := a.Take(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := a.Queue(ctx, t, a.Lock)
	cancel()
	began := await.NewWatch(t)
	if o := <-got; !errors.Is(o.Err, context.Canceled) || errors.Is(o.Err, holdfast.ErrBusy) {
		t.Errorf("LockAdvisory: got %v, want context.Canceled", o.Err)
	}
	if took := began.Took(); took > 2*time.Second {
		t.Errorf("the wait ended %v after its context", took)
	}
	if _, waiting := a.Sessions(t); waiting != 0 {
		t.Errorf("%d are in the queue after the wait was cancelled", waiting)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	a.Free(t)
}

func (a Advisory) cancelledAtTheGrant(t *testing.T) {
	for range 30 {
		lock := a.Take(t)
		ctx, cancel := context.WithCancel(t.Context())
		got := a.Queue(ctx, t, a.Lock)
		go cancel()
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		if o := <-got; o.Err == nil {
			o.MustUnlock(t)
		}
		a.Free(t)
	}
}

// Lost is about a lock whose holder end has lose its session: the holder is notified, and
// the next one, which waits by next, is granted the lock at once.
func (a Advisory) Lost(t *testing.T, lock AdvisoryLock, next func(context.Context) (AdvisoryLock, error), end func()) {
	t.Helper()
	got := a.Queue(t.Context(), t, next)
	end()
	(<-got).MustUnlock(t)
	MustBeLost(t, lock, 3*time.Second, driver.ReasonClosed)
}
