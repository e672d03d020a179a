package otelhold

import (
	"context"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/meter"
)

// maxWakeups bounds the wake-ups that are kept for one wait. SDKs keep that many events for a
// span.
const maxWakeups = 128

// waitKey identifies a wait: the fields that all events of the wait share. Events do not
// say to which call of Lock they belong. Their context distinguishes most calls, because it
// is the same for all events of a call.
type waitKey struct {
	ctx                 context.Context //nolint:containedctx // compared, never used
	backend, kind, name string
}

// wakeups are the wake-ups of one wait. If several waits have the same key, it is not known
// to which of them a wake-up belongs, and no wake-ups are kept.
type wakeups struct {
	waiters int
	mixed   bool
	last    []wakeup
}

type wakeup struct {
	at     time.Time
	source string
}

// waitKeyOf returns the wait to which an event belongs. ok is false if its context cannot
// be compared.
func waitKeyOf(ctx context.Context, e holdfast.Event) (w waitKey, ok bool) {
	return waitKey{ctx, e.Backend, e.Kind, e.Name}, reflect.ValueOf(ctx).Comparable()
}

// wait records that an acquire begins to wait.
func (s *spans) wait(ctx context.Context, e holdfast.Event) {
	key, ok := waitKeyOf(ctx, e)
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

// wake records that a waiter asks the store again.
func (s *spans) wake(ctx context.Context, e holdfast.Event, now time.Time) {
	key, ok := waitKeyOf(ctx, e)
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

// woken returns the wake-ups of an acquire that has ended, the oldest first, and forgets
// them.
func (s *spans) woken(ctx context.Context, e holdfast.Event) []wakeup {
	key, ok := waitKeyOf(ctx, e)
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
