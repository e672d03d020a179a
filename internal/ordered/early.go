package ordered

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// Shorter waits do not pay for another watch, and shorter holds not for another read.
const (
	longWait = 15 * time.Millisecond
	longHold = 4 * time.Millisecond
)

// early is the queue up to a claim's entry, read before the entry ahead goes: the end of
// that one alone says then that the claim is the next.
type early struct {
	asked chan struct{} // closed when the queue is about to be read
	read  chan struct{} // closed when queue is set
	queue []Entry       // nil if it could not be read
}

// nearest returns the last two entries before that of a claim. It returns nil if not all
// entries are of mutexes: each of those is there as a whole or not at all, but a writer may
// leave a part to its readers.
func nearest(before []Entry, mine Entry) []Entry {
	other := func(e Entry) bool { return e.Mark.Kind != Mutex }
	if other(mine) || slices.ContainsFunc(before, other) {
		return nil
	}
	return slices.Clone(before[max(0, len(before)-2):])
}

// early begins to watch the entry before the one ahead. When that goes, the one ahead
// holds, and the queue is read. It returns nil where the queue is read later.
func (e *Engine) early(ctx context.Context, m *met) *early {
	if len(m.nearest) == 0 {
		return nil
	}
	r := &early{asked: make(chan struct{}), read: make(chan struct{})}
	if len(m.nearest) == 1 {
		r.queue = []Entry{m.nearest[0], *m.own}
		close(r.asked)
		close(r.read)
		return r
	}
	e.watches.Go(func() {
		if !retry.Sleep(ctx, longWait) {
			return
		}
		if _, err := e.store.Watch(ctx, m.by.Name, m.nearest[:1]); err != nil || !retry.Sleep(ctx, longHold) {
			return
		}
		close(r.asked)
		defer close(r.read)
		r.queue = e.look(ctx, m)
	})
	return r
}

// isNext says that nothing but the entry ahead, which has gone, was before the claim's.
func (r *early) isNext(m *met) bool {
	if r == nil {
		return false
	}
	select {
	case <-r.asked:
	default: // others are there still
		return false
	}
	<-r.read
	i := find(r.queue, m.own.Mark.ID)
	return i == 0 || i == 1 && r.queue[0].Key == m.ahead[0].Key
}
