package adapter

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pause before a broken link is restored, or a channel sought again, doubles
// from the first of these to the second, with jitter, and starts again after a
// success.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

// reviewEvery is how often a Hub with a Router looks at its routes though
// nothing seems wrong: a node may leave its cluster without a word to those who
// listen there.
const reviewEvery = 10 * time.Second

// run keeps a lane's link for as long as channels are routed there.
func (h *Hub) run(ln *lane) {
	defer close(ln.stopped)
	pause := shortestPause
	for again := false; ; again = true {
		ctx, ok := h.begin(ln)
		if !ok {
			return
		}
		if again {
			h.reroute(ctx, ln, h.names(ln))
		}
		worked := h.serve(ctx, ln)
		if h.end(ctx, ln) {
			continue
		}
		if worked {
			pause = shortestPause
		}
		ln.sleep(pause)
		pause = min(2*pause, longestPause)
	}
}

// begin prepares a session, or reports that nobody needs one and that the lane is
// gone.
func (h *Hub) begin(ln *lane) (context.Context, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ln.topics == 0 {
		delete(h.lanes, ln.addr)
		return nil, false
	}
	clear(ln.changed)
	clear(ln.astray)
	for name, t := range h.topics {
		if t.lane != ln {
			continue
		}
		ln.changed[name] = struct{}{}
		for _, l := range t.listeners {
			l.confirmed = false
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ln.cancel = cancel
	return ctx, true
}

// end closes a session and reports whether it was ended on purpose.
func (h *Hub) end(ctx context.Context, ln *lane) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := ctx.Err() != nil
	ln.cancel()
	ln.cancel, ln.session = nil, nil
	return wanted
}

// serve runs one link until it breaks or nobody listens, and reports whether
// the server ever confirmed anything on it.
func (h *Hub) serve(ctx context.Context, ln *lane) bool {
	if ctx.Err() != nil {
		return false
	}
	s := &session{ctx: ctx, asked: make(map[string]struct{})}
	h.mu.Lock()
	ln.session = s
	dial := ln.dial
	h.mu.Unlock()
	link, err := dial(ctx, Events{hub: h, lane: ln, session: s})
	if err != nil {
		h.router.Doubt(ln.addr)
		h.failFirst(ctx, ln, err)
		return false
	}
	defer link.Close()
	if h.drive(ctx, ln, link, s) {
		h.router.Doubt(ln.addr)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.heard
}

// drive tells a link what to listen to until it breaks, for which it returns
// true, or nobody listens.
func (h *Hub) drive(ctx context.Context, ln *lane, link Link, s *session) bool {
	check, stopCheck := every(h.check)
	defer stopCheck()
	review, stopReview := every(h.review)
	defer stopReview()
	var looked <-chan time.Time // when the Router had time to look
	var seek search
	defer seek.stop()
	for ctx.Err() == nil {
		h.tellLink(ln, link, s)
		select {
		case <-ctx.Done():
		case <-link.Down():
			return ctx.Err() == nil
		case <-ln.wake:
			if h.strayed(ln) {
				seek.start()
			}
		case <-seek.due():
			seek.begun()
			h.router.Doubt("")
			h.reroute(ctx, ln, h.lost(ln, s))
		case <-review:
			h.router.Doubt("")
			looked = time.After(longestPause)
		case <-looked:
			h.reroute(ctx, ln, h.names(ln))
		case <-check:
			if link.Check() != nil {
				return true
			}
		}
	}
	return false
}

// tellLink brings the link up to date with the listeners.
func (h *Hub) tellLink(ln *lane, link Link, s *session) {
	var add, remove []string
	h.mu.Lock()
	for name := range ln.changed {
		if t := h.topics[name]; t != nil && t.lane == ln {
			add = append(add, name)
		} else if _, asked := s.asked[name]; asked {
			remove = append(remove, name)
		}
	}
	clear(ln.changed)
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
// connection to be had. If ctx has ended, that of the session, the connection was
// given up because nobody waited any more; whoever has come since gets the next.
func (h *Hub) failFirst(ctx context.Context, ln *lane, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	for name, t := range h.topics {
		if t.lane == ln {
			h.drop(name, t, err)
		}
	}
}

// sleep waits out a pause, or until something changes: whoever has just come
// shall not wait for the back-off of others.
func (ln *lane) sleep(d time.Duration) {
	timer := time.NewTimer(jitter(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ln.wake:
	}
}

// search paces the search for channels that a node does not serve. Its zero
// value is ready.
type search struct {
	timer *time.Timer // nil while none is planned
	pause time.Duration
	last  time.Time // when the latest began
}

// start plans a search, if none is planned: after a pause, as the channels of a
// slot are lost one by one, and as other nodes learn a little later who has it.
func (s *search) start() {
	if s.timer != nil {
		return
	}
	if s.pause = min(2*s.pause, longestPause); s.pause == 0 || time.Since(s.last) > 2*longestPause {
		s.pause = shortestPause
	}
	s.timer = time.NewTimer(jitter(s.pause))
}

// due returns what fires when a search is to begin.
func (s *search) due() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

func (s *search) begun() { s.timer, s.last = nil, time.Now() }

func (s *search) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// every returns what fires once per d, or never if d is 0, and how to stop it.
func every(d time.Duration) (<-chan time.Time, func()) {
	if d == 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(d)
	return ticker.C, ticker.Stop
}

// jitter returns between a half of d and d.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, protects nothing
}
