package ordered

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// settled is for how long a claim has to wait until its own entry is watched, and until
// the store is asked for the holder, where it has not said so. Most waits are over before, and
// do not pay for either.
const settled = 250 * time.Millisecond

// met is what a Try found in its way: Outcome.Ahead.
type met struct {
	by      *attempt
	ahead   []Entry
	sole    bool   // the one ahead is the only one, and both are of mutexes: a writer may leave a part to its readers
	before  *Entry // the one before that, if there is one and both are of mutexes
	own     *Entry // the claim's own; nil if it has none
	unnamed bool   // the holder is not known
	kept    int64  // the session of the first entry, if nobody holds that
}

// mutexes takes note of what is before the one ahead, if that and the claim are of mutexes.
func (m *met) mutexes(before []Entry) {
	n := len(before)
	switch {
	case m.own.Mark.Kind != Mutex || before[n-1].Mark.Kind != Mutex:
	case n == 1:
		m.sole = true
	default:
		second := before[n-2] // a copy: the whole queue would stay in memory
		m.before = &second
	}
}

// watch is a call of Store.Watch under way.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the others are set
	err    error         // of the call
	queue  []Entry       // as it was after the call; nil if that is not known
}

// ended says that the call has returned; false for nil.
func (w *watch) ended() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// waiter waits for one claim.
type waiter struct {
	engine *Engine

	// What is watched, since when; watch is nil while nothing is.
	met   *met
	since time.Time
	watch *watch // of the entries ahead
	own   *watch // of the claim's own; nil at first
	asked bool   // another try was to learn the holder
}

// Waiter prepares to wait until an entry is removed that keeps a claim waiting, or that
// of the claim itself.
func (e *Engine) Waiter(driver.Claim) driver.Waiter { return &waiter{engine: e} }

// Wait returns when what last met has changed, with the grant if there is nothing ahead any
// more, and once for another try where last does not name the holder. The watches go on
// when ctx ends: the next Wait for the same entries misses nothing.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	m, ok := last.Ahead.(*met)
	if !ok {
		return driver.Outcome{}, nil // not an answer of ours: nothing is known, so another try is worth while
	}
	w.prepare(m)
	later := time.NewTimer(w.later(ctx, m))
	defer later.Stop()
	for {
		var own <-chan struct{}
		if w.own != nil {
			own = w.own.done
		}
		select {
		case <-w.watch.done:
			queue, err := w.watch.queue, w.watch.err
			if w.own.ended() { // the own entry may have gone first
				queue = nil
			}
			w.watch.cancel()
			w.watch = nil
			out := w.engine.grantOf(m.by, queue)
			if out.Granted {
				w.Close()
			}
			return out, err
		case <-own:
			err := w.own.err
			w.Close()
			return driver.Outcome{}, err
		case <-later.C:
			if m.unnamed && !w.asked {
				w.asked = true
				return driver.Outcome{}, nil
			}
			if m.own != nil && w.own == nil {
				w.own = w.engine.watch(func(ctx context.Context) ([]Entry, error) {
					_, err := w.engine.store.Watch(ctx, m.by.Name, []Entry{*m.own}, nil, nil)
					return nil, err
				})
			}
		case <-ctx.Done():
			return driver.Outcome{}, ctx.Err()
		}
	}
}

// prepare watches what is ahead, unless that is watched already.
func (w *waiter) prepare(m *met) {
	if w.watch != nil && w.met.same(m) {
		return
	}
	if w.watch != nil {
		w.watch.cancel()
	}
	if w.own != nil && !m.sameOwn(w.met) { // else another program may remove it meanwhile
		w.own.cancel()
		w.own = nil
	}
	w.met, w.since, w.asked = m, time.Now(), false
	w.watch = w.engine.watch(func(ctx context.Context) ([]Entry, error) { return w.engine.follow(ctx, m) })
}

// same says that two Tries of a claim met the same entries.
func (m *met) same(other *met) bool {
	return m.sameOwn(other) && slices.EqualFunc(m.ahead, other.ahead, func(a, b Entry) bool { return a.Key == b.Key })
}

// sameOwn says that the claim had the same entry in both, or none.
func (m *met) sameOwn(other *met) bool {
	if m.own == nil || other.own == nil {
		return m.own == other.own
	}
	return m.own.Order == other.own.Order && m.own.Key == other.own.Key
}

// later is how long it takes until the wait is a long one: that of a caller who has not
// much time is one when half of it has passed, if another try is to come.
func (w *waiter) later(ctx context.Context, m *met) time.Duration {
	left := settled - time.Since(w.since)
	if end, ok := ctx.Deadline(); ok && m.unnamed && !w.asked {
		left = min(left, time.Until(end)/2)
	}
	return left
}

// Close ends the watches, without waiting for their goroutines: Drain does.
func (w *waiter) Close() {
	for _, watch := range []*watch{w.watch, w.own} {
		if watch != nil {
			watch.cancel()
		}
	}
	w.watch, w.own = nil, nil
}

// watch begins to watch entries.
func (e *Engine) watch(call func(context.Context) ([]Entry, error)) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, done: make(chan struct{})}
	e.watches.Go(func() {
		defer close(w.done)
		w.queue, w.err = call(ctx)
	})
	return w
}

// follow returns when what a Try met has changed, with the queue up to the claim's entry,
// nil if that is not known.
func (e *Engine) follow(ctx context.Context, m *met) ([]Entry, error) {
	sole := m.sole
	gone, err := e.store.Watch(ctx, m.by.Name, m.ahead, m.before, func() { sole = e.isSole(ctx, m) })
	if err != nil || m.own == nil {
		return nil, err
	}
	if gone && sole {
		return []Entry{*m.own}, nil
	}
	return e.read(ctx, m), nil
}

// isSole says that nothing but the one ahead is before the claim's own any more.
func (e *Engine) isSole(ctx context.Context, m *met) bool {
	queue := e.read(ctx, m)
	i := Find(queue, m.own.Mark.ID)
	return i == 0 || i == 1 && queue[0].Key == m.ahead[0].Key
}

// read returns the queue up to the claim's entry, nil if it cannot be read: then another
// try finds out.
func (e *Engine) read(ctx context.Context, m *met) []Entry {
	ctx, cancel := context.WithTimeout(ctx, retry.Timeout(m.by.TTL, 0))
	defer cancel()
	queue, err := e.store.Queue(ctx, m.by.Name, m.own.Order, false)
	if err != nil {
		return nil
	}
	return queue
}

// Drain waits until nothing runs in the background: watches of Waiters that were closed.
func (e *Engine) Drain(ctx context.Context) error { return e.watches.Wait(ctx) }
