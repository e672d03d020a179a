package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// longestPause bounds the pause before a broken link is restored, or a channel sought
// again, which doubles each time and starts again after a success.
const longestPause = time.Second

// reviewEvery is how often a Hub with a Router looks at its routes though
// nothing seems wrong: a node may leave its cluster without a word to those who
// listen there.
const reviewEvery = 10 * time.Second

// run keeps a node connection's link for as long as channels are routed there.
func (h *Hub) run(ln *nodeConn) {
	defer close(ln.stopped)
	tries := 0 // in a row that came to nothing
	for again := false; ; again = true {
		s := h.begin(ln)
		if s == nil {
			return
		}
		if again {
			h.reroute(s.ctx, ln, h.names(ln))
		}
		h.serve(ln, s)
		wanted, worked := h.end(ln, s)
		if wanted {
			continue
		}
		if worked {
			tries = 0
		}
		tries++
		select {
		case <-time.After(retry.Delay(tries, longestPause)):
		case <-ln.wake: // a newcomer shall not wait for the back-off of others
		}
	}
}

// begin prepares a session, or returns nil if nobody needs one and the node connection is gone.
func (h *Hub) begin(ln *nodeConn) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(ln.topics) == 0 {
		delete(h.nodeConns, ln.addr)
		return nil
	}
	clear(ln.changed)
	clear(ln.astray)
	for name, t := range ln.topics {
		ln.changed[name] = struct{}{}
		t.unconfirm()
	}
	ln.session = &Session{hub: h, node: ln, asked: make(map[string]struct{})}
	ln.session.ctx, ln.session.cancel = context.WithCancel(context.Background())
	return ln.session
}

// end closes a session, and reports whether it was ended on purpose, and whether the
// server ever confirmed anything.
func (h *Hub) end(ln *nodeConn, s *Session) (wanted, worked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted = s.ctx.Err() != nil
	s.cancel()
	ln.session = nil
	return wanted, s.confirmed
}

// serve runs one link until it breaks or nobody listens.
func (h *Hub) serve(ln *nodeConn, s *Session) {
	if s.ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	dial := ln.dial
	h.mu.Unlock()
	link, err := dial(s.ctx, s)
	if err != nil {
		h.router.Review(ln.addr)
		h.failFirst(ln, s, err)
		return
	}
	defer link.Close()
	if h.drive(ln, s, link) {
		h.router.Review(ln.addr)
	}
}

// drive makes a link listen until it breaks, for which it returns
// true, or nobody listens.
func (h *Hub) drive(ln *nodeConn, s *Session, link Link) bool {
	check, review := time.Tick(h.check), time.Tick(h.review) // nil for never
	var looked <-chan time.Time                              // when the Router had time to look
	// Channels that the node does not serve are sought after a pause, as those of a slot
	// are lost one by one, and as other nodes learn a little later who has it.
	var seek <-chan time.Time // nil while no search is planned
	searches := 0             // in a row
	var last time.Time        // when the latest of them began
	for s.ctx.Err() == nil {
		if astray := h.tellLink(ln, s, link); astray && seek == nil {
			if time.Since(last) > 2*longestPause {
				searches = 0
			}
			searches++
			seek = time.After(retry.Delay(searches, longestPause))
		}
		select {
		case <-s.ctx.Done():
		case <-link.Down():
			return s.ctx.Err() == nil
		case <-ln.wake:
		case <-seek:
			seek, last = nil, time.Now()
			h.router.Review("")
			h.reroute(s.ctx, ln, h.lost(ln, s))
		case <-review:
			h.router.Review("")
			looked = time.After(longestPause)
		case <-looked:
			h.reroute(s.ctx, ln, h.names(ln))
		case <-check:
			if link.Check() != nil {
				return true
			}
		}
	}
	return false
}

// tellLink brings the link up to date with the listeners, and reports whether channels
// have to be sought elsewhere.
func (h *Hub) tellLink(ln *nodeConn, s *Session, link Link) (astray bool) {
	var add, remove []string
	h.mu.Lock()
	if s.ctx.Err() != nil { // the last listener left just now: the link is about to be closed
		h.mu.Unlock()
		return false
	}
	for name := range ln.changed {
		if ln.topics[name] != nil {
			add = append(add, name)
			s.asked[name] = struct{}{}
		} else if _, asked := s.asked[name]; asked {
			remove = append(remove, name)
			delete(s.asked, name)
		}
	}
	clear(ln.changed)
	astray = len(ln.astray) > 0
	h.mu.Unlock()
	if len(remove) > 0 {
		link.Unsubscribe(remove)
	}
	if len(add) > 0 {
		link.Subscribe(add)
	}
	return astray
}

// failFirst answers every waiter for a first confirmation: there is no
// connection to be had. If the session has ended, the connection was given up because
// nobody waited any more; a newcomer gets the next.
func (h *Hub) failFirst(ln *nodeConn, s *Session, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	for name, t := range ln.topics {
		h.drop(name, t, err)
	}
}
