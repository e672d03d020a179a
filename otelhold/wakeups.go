package otelhold

import (
	"context"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/meter"
)

// maxWakeups bounds what is kept of one wait; it is the number of events that
// SDKs keep of a span.
const maxWakeups = 128

// wait is what the events of one wait have in common. Events do not say which
// call of Lock they are about, but its context distinguishes most of them: it is
// the same for all events of a call.
type wait struct {
	ctx                 context.Context //nolint:containedctx // compared, never used
	backend, kind, name string
}

// wakeups are those of one wait, or of several that look the same: then nobody
// can tell whose they are, and none are kept.
type wakeups struct {
	waiters int
	mixed   bool
	last    []wakeup
}

type wakeup struct {
	at     time.Time
	source string
}

// waitOf returns the wait that an event is about; ok is false if its context
// cannot be compared.
func waitOf(ctx context.Context, e holdfast.Event) (w wait, ok bool) {
	return wait{ctx, e.Backend, e.Kind, e.Name}, reflect.ValueOf(ctx).Comparable()
}

// wait notes that an acquire begins to wait.
func (s *spans) wait(ctx context.Context, e holdfast.Event) {
	key, ok := waitOf(ctx, e)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waits[key]
	if w == nil {
		w = &wakeups{}
		s.waits[key] = w
	}
	w.waiters++
	if w.waiters > 1 {
		w.mixed, w.last = true, nil
	}
}

// wake notes that a wait asks the store again.
func (s *spans) wake(ctx context.Context, e holdfast.Event, now time.Time) {
	key, ok := waitOf(ctx, e)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waits[key]
	if w == nil || w.mixed {
		return
	}
	if len(w.last) == maxWakeups {
		w.last = append(w.last[:0], w.last[1:]...)
	}
	w.last = append(w.last, wakeup{now, meter.WakeSource(e.Notified)})
}

// woken returns the wake-ups of an acquire that ended, oldest first, and forgets
// them.
func (s *spans) woken(ctx context.Context, e holdfast.Event) []wakeup {
	key, ok := waitOf(ctx, e)
	if !ok || !e.Blocked {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waits[key]
	if w == nil {
		return nil
	}
	w.waiters--
	if w.waiters == 0 {
		delete(s.waits, key)
	}
	return w.last
}
