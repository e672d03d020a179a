package memhold

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// callID distinguishes calls on latches.
type callID struct{ name, call string }

// answer is what is remembered of a call on a latch.
type answer struct {
	set   bool
	until time.Time
}

// SetCount sets the count of the latch name to n and returns true. It returns false, and
// changes nothing, if the count is not 0. A repetition with the same call within 5 s
// returns the first result. It returns driver.ErrMismatch if name is in use for something
// else, and driver.ErrRefused if n is less than 1.
func (b *Backend) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	if n < 1 {
		return false, refused("latch %q: cannot count down from %d", name, n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if a, ok := b.answered(name, call, now); ok {
		return a.set, nil
	}
	e, err := b.expect(name, latch, now)
	if err != nil {
		return false, err
	}
	if e == nil {
		counting := newEntry(latch)
		counting.count = n
		b.entries[name] = counting
	}
	b.answers[callID{name, call}] = answer{set: e == nil, until: now.Add(remember)}
	return e == nil, nil
}

// CountDown lowers the count of the latch name by one. At 0 the latch opens, and waiters
// are notified. On an open latch it changes nothing. A repetition with the same call
// within 5 s has no effect. It returns driver.ErrMismatch if name is in use for something
// else.
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
	e, err := b.expect(name, latch, now)
	if err != nil {
		return err
	}
	b.answers[callID{name, call}] = answer{until: now.Add(remember)}
	if e == nil {
		return nil
	}
	if e.count--; e.count == 0 {
		delete(b.entries, name)
		e.wake()
	}
	return nil
}

// Count returns the count of the latch name; 0 means that it is open or was never set. It
// returns driver.ErrMismatch if name is in use for something else.
func (b *Backend) Count(ctx context.Context, name string) (int64, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.expect(name, latch, b.begin())
	if err != nil || e == nil {
		return 0, err
	}
	return e.count, nil
}

// answered returns the answer that was given to call, if it is remembered.
func (b *Backend) answered(name, call string, now time.Time) (answer, bool) {
	a, ok := b.answers[callID{name, call}]
	return a, ok && now.Before(a.until)
}

// LatchWaiter returns a Waiter whose Wait returns when the latch name opens. The first
// Wait returns at once.
func (b *Backend) LatchWaiter(name string) driver.Waiter {
	return &latchWaiter{backend: b, name: name}
}

// latchWaiter waits for what it saw when Wait returned the last time: the
// caller's Count follows that, so nothing falls in between.
type latchWaiter struct {
	backend *Backend
	name    string
	opens   <-chan struct{} // nil: nothing seen yet
}

// Wait returns when the latch has opened since Wait last returned, or with ctx's
// error.
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

// check takes down what there is to wait for: nothing if the latch is open.
func (w *latchWaiter) check() {
	w.backend.mu.Lock()
	defer w.backend.mu.Unlock()
	w.opens = nil
	if e := w.backend.entries[w.name]; e != nil {
		w.opens = e.freed
	}
}

// Close does nothing: Wait leaves nothing behind.
func (w *latchWaiter) Close() {}
