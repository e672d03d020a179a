package memhold

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// callID identifies a call on a latch.
type callID struct{ name, call string }

// answer is the remembered answer to a call on a latch.
type answer struct {
	set   bool
	until time.Time
}

// SetCount sets the count of the latch `name` to n and returns true. It returns false, and
// changes nothing, if the count is not 0. The parameter `call` identifies this call: a
// repetition with the same value within 5 s returns the first result. SetCount returns
// driver.ErrMismatch if the name is in use for something else, and driver.ErrRefused if n is
// less than 1.
func (b *Backend) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if a, ok := b.answered(name, call, now); ok && n > 0 {
		return a.set, nil
	}
	e := b.open(name, now)
	set, err := e.SetCount(name, n)
	if err != nil {
		return false, failed(err)
	}
	b.settle(name, e)
	b.answers[callID{name, call}] = answer{set: set, until: now.Add(document.Remember)}
	return set, nil
}

// CountDown lowers the count of the latch `name` by one. At 0 the latch opens, and waiters are
// notified. On an open latch CountDown changes nothing. The parameter `call` identifies this
// call: a repetition with the same value within 5 s has no effect. CountDown returns
// driver.ErrMismatch if the name is in use for something else.
func (b *Backend) CountDown(ctx context.Context, name, call string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if _, ok := b.answered(name, call, now); ok {
		return nil
	}
	e := b.open(name, now)
	if err := e.CountDown(name, now); err != nil {
		return failed(err)
	}
	b.settle(name, e)
	b.answers[callID{name, call}] = answer{until: now.Add(document.Remember)}
	return nil
}

// Count returns the count of the latch `name`; 0 means that the latch is open or was never set.
// It returns driver.ErrMismatch if the name is in use for something else.
func (b *Backend) Count(ctx context.Context, name string) (int64, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.open(name, b.begin())
	if err := e.Expect(name, document.Latch); err != nil {
		return 0, failed(err)
	}
	return e.Count, nil
}

// answered returns the answer to an earlier call with the same value of `call`, if the Backend
// remembers it.
func (b *Backend) answered(name, call string, now time.Time) (answer, bool) {
	a, ok := b.answers[callID{name, call}]
	return a, ok && now.Before(a.until)
}

// LatchWaiter returns a Waiter whose Wait returns when the latch `name` opens. The first Wait
// returns at once.
func (b *Backend) LatchWaiter(name string) driver.Waiter {
	return &latchWaiter{backend: b, name: name}
}

// latchWaiter waits for a change of the state that it read just before Wait last returned. The
// caller calls Count after Wait has returned, so the caller misses no change.
type latchWaiter struct {
	backend *Backend
	name    string
	opens   <-chan struct{} // closed when the latch opens; nil means that the next Wait returns at once
}

// Wait returns nil as the error when the latch has opened since Wait last returned. It returns
// the error of ctx when ctx ends.
func (w *latchWaiter) Wait(ctx context.Context, _ driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	if w.opens != nil {
		select {
		case <-w.opens:
		case <-ctx.Done():
			return driver.Outcome{}, ctx.Err()
		}
	}
	w.check()
	return driver.Outcome{}, nil
}

// check reads the state for the next Wait, which returns at once if the latch is open now.
func (w *latchWaiter) check() {
	w.backend.mu.Lock()
	defer w.backend.mu.Unlock()
	w.opens = nil
	if e := w.backend.resources[w.name]; e != nil {
		w.opens = e.freed
	}
}

// Close does nothing: Wait leaves nothing behind.
func (w *latchWaiter) Close() {}
