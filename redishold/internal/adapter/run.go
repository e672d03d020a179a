package adapter

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pause before a broken link is restored doubles from the first of these to
// the second, with jitter, and starts again after a link that worked.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

// run keeps a link for as long as there are listeners.
func (h *Hub) run(stopped chan struct{}) {
	defer close(stopped)
	pause := shortestPause
	for {
		ctx, ok := h.begin()
		if !ok {
			return
		}
		worked := h.serve(ctx)
		if h.end(ctx) {
			continue
		}
		if worked {
			pause = shortestPause
		}
		h.sleep(pause)
		pause = min(2*pause, longestPause)
	}
}

// begin prepares a session, or reports that nobody needs one.
func (h *Hub) begin() (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.topics) == 0 {
		clear(h.changed)
		h.stopped = nil
		return nil, false
	}
	for name, t := range h.topics {
		h.changed[name] = struct{}{}
		for _, l := range t.listeners {
			l.confirmed = false
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	return ctx, true
}

// end closes a session and reports whether it was ended on purpose.
func (h *Hub) end(ctx context.Context) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := ctx.Err() != nil
	h.cancel()
	h.cancel, h.session = nil, nil
	return wanted
}

// serve runs one link until it breaks or nobody listens, and reports whether
// the server ever confirmed anything on it.
func (h *Hub) serve(ctx context.Context) bool {
	s := &session{ctx: ctx, asked: make(map[string]struct{})}
	h.mu.Lock()
	h.session = s
	h.mu.Unlock()
	link, err := h.dial(ctx, Events{hub: h, session: s})
	if err != nil {
		h.failFirst(err)
		return false
	}
	defer link.Close()
	h.drive(ctx, link, s)
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.heard
}

func (h *Hub) drive(ctx context.Context, link Link, s *session) {
	var tick <-chan time.Time
	if h.check > 0 {
		ticker := time.NewTicker(h.check)
		defer ticker.Stop()
		tick = ticker.C
	}
	for ctx.Err() == nil {
		h.tellLink(link, s)
		select {
		case <-ctx.Done():
			return
		case <-link.Down():
			return
		case <-h.wake:
		case <-tick:
			if link.Check() != nil {
				return
			}
		}
	}
}

// tellLink brings the link up to date with the listeners.
func (h *Hub) tellLink(link Link, s *session) {
	var add, remove []string
	h.mu.Lock()
	for name := range h.changed {
		if h.topics[name] != nil {
			add = append(add, name)
		} else if _, asked := s.asked[name]; asked {
			remove = append(remove, name)
		}
	}
	clear(h.changed)
	h.mu.Unlock()
	for _, name := range remove {
		delete(s.asked, name)
	}
	for _, name := range add {
		s.asked[name] = struct{}{}
	}
	if len(remove) > 0 {
		link.Unsubscribe(remove)
	}
	if len(add) > 0 {
		link.Subscribe(add)
	}
}

// failFirst answers everybody who waits for a first confirmation: there is no
// connection to be had.
func (h *Hub) failFirst(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, t := range h.topics {
		h.drop(name, t, err)
	}
}

// sleep waits out a pause, or until something changes: whoever has just come
// shall not wait for the back-off of others.
func (h *Hub) sleep(d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2+1)) //nolint:gosec // spreads load, protects nothing
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.wake:
	}
}
