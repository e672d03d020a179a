package versioned

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// set changes the document of a name. The function `do` returns an error only if it has changed
// nothing.
func (e *Engine) set(ctx context.Context, what, name string, do func(d *document.Document, now time.Time) error) error {
	n := e.enter(name)
	defer e.leave(n)
	var refused error
	err := e.call(ctx, n, early, func(d *document.Document, now time.Time) change {
		if refused = do(d, now); refused != nil {
			return unchanged
		}
		return grants
	})
	if err == nil {
		err = refused
	}
	return e.failed(what, name, err)
}

// look calls `do` with the document that the store has now. The function must not change it.
func (e *Engine) look(ctx context.Context, what, name string, do func(d *document.Document, now time.Time) error) error {
	n := e.enter(name)
	defer e.leave(n)
	var refused error
	err := e.call(ctx, n, late, func(d *document.Document, now time.Time) change {
		refused = do(d, now)
		return unchanged
	})
	if err == nil {
		err = refused
	}
	return e.failed(what, name, err)
}

// Resize sets the number of permits of a semaphore, as driver.Resizer says.
func (e *Engine) Resize(ctx context.Context, name string, permits int) error {
	return e.set(ctx, "resize", name, func(d *document.Document, now time.Time) error {
		return d.Resize(name, permits, now)
	})
}

// Permits returns the number of all permits and of free permits, as driver.Resizer says.
func (e *Engine) Permits(ctx context.Context, name string) (total, free int, err error) {
	err = e.look(ctx, "look at", name, func(d *document.Document, _ time.Time) error {
		total, free = d.Permits, d.Free()
		if d.Kind == "" {
			total, free = 0, 0
		}
		return d.Expect(name, document.Semaphore)
	})
	if err != nil {
		return 0, 0, err
	}
	return total, free, nil
}

// SetCount sets the count of a latch that is open, as driver.Latcher says. A repetition is known for
// document.Remember.
func (e *Engine) SetCount(ctx context.Context, name, call string, count int64) (set bool, err error) {
	err = e.set(ctx, "set the count of", name, func(d *document.Document, now time.Time) (refused error) {
		set, refused = d.SetCountOnce(name, call, count, now)
		return refused
	})
	if err != nil {
		return false, err
	}
	return set, nil
}

// CountDown lowers the count of a latch, as driver.Latcher says. A repetition is known for
// document.Remember.
func (e *Engine) CountDown(ctx context.Context, name, call string) error {
	return e.set(ctx, "count down", name, func(d *document.Document, now time.Time) error {
		return d.CountDownOnce(name, call, now)
	})
}

// Count returns the count of a latch, as driver.Latcher says.
func (e *Engine) Count(ctx context.Context, name string) (count int64, err error) {
	err = e.look(ctx, "look at", name, func(d *document.Document, _ time.Time) error {
		count = d.Count
		return d.Expect(name, document.Latch)
	})
	if err != nil {
		return 0, err
	}
	return count, nil
}

// LatchWaiter returns a Waiter whose Wait returns when the latch may have opened. The first Wait
// returns at once.
func (e *Engine) LatchWaiter(name string) driver.Waiter {
	return &waiter{engine: e, sleeper: newSleeper(driver.Claim{Name: name}, true)}
}
