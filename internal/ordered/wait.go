package ordered

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// longWait is how long a waiter waits before it also watches its claim's own entry. If the
// holder is unknown, Wait returns after that time, so that another Try asks the store for the
// holder. Most waits end earlier, so they need neither that watch nor that Try.
const longWait = 250 * time.Millisecond

// blockers is the value of Outcome.Ahead: the entries that a refused claim has to wait for, and
// what its Try knows about them.
type blockers struct {
	by            *attempt
	ahead         []Entry
	sole          bool   // exactly one entry is before the claim's own entry, and both entries are mutexes
	before        *Entry // the entry directly before the only one in `ahead`; nil unless the method mutexes has set it
	own           *Entry // the entry of the claim; nil if the claim has none
	holderUnknown bool   // the first entry lacks the fields that name the holder
	kept          int64  // the session of the first entry if Outcome.Kept is true, else 0
}

// mutexes sets m.sole or m.before if the claim is a mutex, and the last entry in `before` is a
// mutex, too. `before` has all entries that are before the claim's own entry.
func (m *blockers) mutexes(before []Entry) {
	n := len(before)
	switch {
	case m.own.Label.Kind != Mutex || before[n-1].Label.Kind != Mutex:
	case n == 1:
		m.sole = true
	default:
		second := before[n-2] // a copy: a pointer would keep the whole queue in memory
		m.before = &second
	}
}

// watch is a call of Store.Watch under way.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when err and queue are set
	err    error         // the error of the call
	queue  []Entry       // the queue after the call; nil if it was not read
}

// waiter waits for one claim.
type waiter struct {
	engine *Engine

	blockers    *blockers
	since       time.Time // when the wait for the entries ahead began
	watch       *watch    // watches the entries ahead; nil while they are not watched
	ownWatch    *watch    // watches the claim's own entry; nil until the wait is long
	askedHolder bool      // Wait has returned once so that another Try learns the holder
}

// Waiter returns a Waiter that waits until an entry ahead of the claim, or the claim's own
// entry, is removed.
func (e *Engine) Waiter(driver.Claim) driver.Waiter { return &waiter{engine: e} }

// Wait returns when one of the entries ahead of the claim was removed or changed. `last` is the
// Outcome of the refused Try, and has these entries. If no entry is ahead any more, Wait
// returns the grant. If `last` does not name the holder, a long wait returns early once, so
// that another Try learns the holder. When ctx ends, the watches continue, so that the next
// Wait for the same entries misses no change.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	m, ok := last.Ahead.(*blockers)
	if !ok {
		return driver.Outcome{}, nil // `last` is not an Outcome of this Engine: another Try must find out
	}
	w.prepare(m)
	later := time.NewTimer(w.untilLongWait(ctx, m))
	defer later.Stop()
	for {
		var own <-chan struct{}
		if w.ownWatch != nil {
			own = w.ownWatch.done
		}
		select {
		case <-w.watch.done:
			queue, err := w.watch.queue, w.watch.err
			select {
			case <-own: // the claim's own entry may have been removed first
				queue = nil
			default:
			}
			w.watch.cancel()
			w.watch = nil
			out := w.engine.grantOf(m.by, queue)
			if out.Granted {
				w.Close()
			}
			return out, err
		case <-own:
			err := w.ownWatch.err
			w.Close()
			return driver.Outcome{}, err
		case <-later.C:
			if m.holderUnknown && !w.askedHolder {
				w.askedHolder = true
				return driver.Outcome{}, nil
			}
			if m.own != nil && w.ownWatch == nil {
				w.ownWatch = w.engine.watch(func(ctx context.Context) ([]Entry, error) {
					_, err := w.engine.store.Watch(ctx, m.by.Name, []Entry{*m.own}, nil, nil)
					return nil, err
				})
			}
		case <-ctx.Done():
			return driver.Outcome{}, ctx.Err()
		}
	}
}

// prepare watches the entries ahead, unless they are watched already.
func (w *waiter) prepare(m *blockers) {
	if w.watch != nil && w.blockers.same(m) {
		return
	}
	if w.watch != nil {
		w.watch.cancel()
	}
	// If the claim's own entry is still the same, its watch continues, because another program
	// may remove that entry.
	if w.ownWatch != nil && !m.sameOwn(w.blockers) {
		w.ownWatch.cancel()
		w.ownWatch = nil
	}
	w.blockers, w.since, w.askedHolder = m, time.Now(), false
	w.watch = w.engine.watch(func(ctx context.Context) ([]Entry, error) { return w.engine.awaitChange(ctx, m) })
}

// same reports whether two Tries of a claim found the same entries ahead, and the same own
// entry.
func (m *blockers) same(other *blockers) bool {
	return m.sameOwn(other) && slices.EqualFunc(m.ahead, other.ahead, func(a, b Entry) bool { return a.Key == b.Key })
}

// sameOwn reports whether the claim had the same own entry in m and in `other`, or none in
// both.
func (m *blockers) sameOwn(other *blockers) bool {
	if m.own == nil || other.own == nil {
		return m.own == other.own
	}
	return m.own.Order == other.own.Order && m.own.Key == other.own.Key
}

// untilLongWait returns the time until the wait counts as long. A wait is long when it has
// lasted for longWait. If the holder is unknown, and the waiter has not yet asked for it, the
// wait is also long when half of the time until the deadline of ctx has passed.
func (w *waiter) untilLongWait(ctx context.Context, m *blockers) time.Duration {
	left := longWait - time.Since(w.since)
	if end, ok := ctx.Deadline(); ok && m.holderUnknown && !w.askedHolder {
		left = min(left, time.Until(end)/2)
	}
	return left
}

// Close ends the watches, and does not wait for their goroutines: Drain waits for them.
func (w *waiter) Close() {
	for _, watch := range []*watch{w.watch, w.ownWatch} {
		if watch != nil {
			watch.cancel()
		}
	}
	w.watch, w.ownWatch = nil, nil
}

// watch runs the function `call` in the background. The watch that it returns gets the result.
func (e *Engine) watch(call func(context.Context) ([]Entry, error)) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{})}
	e.watches.Go(func() {
		defer close(w.done)
		w.queue, w.err = call(ctx)
	})
	return w
}

// awaitChange returns when one of the entries ahead has changed. It returns the queue, at least
// up to the entry of the claim, or nil if the queue is not known.
func (e *Engine) awaitChange(ctx context.Context, m *blockers) ([]Entry, error) {
	sole := m.sole
	gone, err := e.store.Watch(ctx, m.by.Name, m.ahead, m.before, func() { sole = e.isSole(ctx, m) })
	if err != nil || m.own == nil {
		return nil, err
	}
	if gone && sole {
		return []Entry{*m.own}, nil
	}
	return e.readUpTo(ctx, m), nil
}

// isSole reports whether the claim's own entry is the first in the queue, or has only the entry
// in m.ahead before it.
func (e *Engine) isSole(ctx context.Context, m *blockers) bool {
	queue := e.readUpTo(ctx, m)
	i := Find(queue, m.own.Label.ID)
	return i == 0 || i == 1 && queue[0].Key == m.ahead[0].Key
}

// readUpTo returns the queue, at least up to the entry of the claim. If it cannot read the
// queue, it returns nil, and the claim must be tried again.
func (e *Engine) readUpTo(ctx context.Context, m *blockers) []Entry {
	ctx, cancel := context.WithTimeout(ctx, retry.Timeout(m.by.TTL, 0))
	defer cancel()
	queue, err := e.store.Queue(ctx, m.by.Name, m.own.Order, false)
	if err != nil {
		return nil
	}
	return queue
}

// Drain waits until the watches of closed Waiters have ended. It returns the error of ctx if
// ctx ends before that.
func (e *Engine) Drain(ctx context.Context) error { return e.watches.Wait(ctx) }
