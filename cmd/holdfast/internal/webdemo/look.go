package webdemo

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	lookEvery = 500 * time.Millisecond // while somebody watches
	lookLimit = time.Second
)

// watch reads the lock again and again while somebody watches, until ctx ends.
func (s *site) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.pokes:
		case <-ctx.Done():
			return
		}
		if s.viewers.Load() > 0 {
			s.look(ctx)
		}
	}
}

// poke says that the lock may have changed.
func (s *site) poke() {
	select {
	case s.pokes <- struct{}{}:
	default:
	}
}

// look reads the lock and its keys, as they are in the store, and shows them.
func (s *site) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	now, err := s.readLock(ctx)
	s.board.update(func(b *state) {
		if err != nil { // what was seen last stays
			now = b.Lock
			now.Trouble = "The store does not answer: " + err.Error()
		}
		b.Lock = now
	})
}

func (s *site) readLock(ctx context.Context) (lockState, error) {
	l := lockState{Lease: s.lease.Milliseconds(), Answered: true}
	for _, part := range []struct{ name, what string }{
		{lockName, "the lock: who holds it, and how often"},
		{ledgerName, "what the lock protects: a write with a smaller token is refused"},
		{tokenName, "the last fencing token; only a demo lets it expire"},
	} {
		d, err := s.console.Describe(ctx, part.name)
		if err != nil {
			return l, err
		}
		now := time.Now()
		for _, k := range d.Keys {
			l.Keys = append(l.Keys, keyState{Name: k.Name, Type: k.Type, Ends: endOf(now, k.Remaining), Value: k.Value, What: part.what})
		}
		if part.name == lockName {
			l.describe(d.Record, now)
		}
	}
	return l, nil
}

func (l *lockState) describe(r admin.Record, now time.Time) {
	l.At, l.Waiters = now.UnixMilli(), r.Listeners
	if len(r.Holds) == 0 {
		return
	}
	h := r.Holds[0]
	l.Held, l.Owner, l.Ends = true, h.Owner, endOf(now, h.Remaining)
	l.Holder = h.Client.Note
	if l.Holder == "" && h.Client.Program != "" {
		l.Holder = fmt.Sprintf("%s@%s:%d", h.Client.Program, h.Client.Host, h.Client.PID)
	}
}

// endOf returns when something ends that remains for d, 0 if it does not.
func endOf(now time.Time, d time.Duration) int64 {
	if d < 0 {
		return 0
	}
	return now.Add(d).UnixMilli()
}
