package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// longestPause is the maximal pause before a broken link is restored, or a misrouted channel
// is routed again. The pause doubles each time, and is short again after a success.
const longestPause = time.Second

// reviewEvery is the interval at which a Hub routes its channels again although nothing
// seems wrong: a node that leaves its cluster does not close its connections.
const reviewEvery = 10 * time.Second

// run dials and serves the links of a node connection, until no channels are routed to the node
// any more.
func (h *Hub) run(ln *nodeConn) {
	defer close(ln.stopped)
	tries := 0 // number of links in a row that ended without a confirmation of the server
	for again := false; ; again = true {
		s := h.begin(ln)
		if s == nil {
			return
		}
		if again {
			h.reroute(ln, s)
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
		case <-ln.wake: // a new listener must not wait for the back-off of others
		}
	}
}

// begin returns a new session. If no channels are routed to the node any more, it removes
// the node connection and returns nil.
func (h *Hub) begin(ln *nodeConn) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(ln.topics) == 0 {
		delete(h.nodeConns, ln.addr)
		return nil
	}
	clear(ln.changed)
	clear(ln.misrouted)
	for name, t := range ln.topics {
		ln.changed[name] = struct{}{}
		t.unconfirm()
	}
	ln.session = &Session{hub: h, node: ln, asked: make(map[string]struct{}), left: make(map[string]int)}
	ln.session.ctx, ln.session.cancel = context.WithCancel(context.Background())
	return ln.session
}

// end ends a session, and reports whether the Hub wanted its end, and whether the server had
// confirmed a subscription.
func (h *Hub) end(ln *nodeConn, s *Session) (wanted, worked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted = s.ctx.Err() != nil
	s.cancel()
	ln.session = nil
	return wanted, s.confirmed
}

// serve dials one link and drives it until it breaks or is not needed any more.
func (h *Hub) serve(ln *nodeConn, s *Session) {
	if s.ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	dial := ln.dial
	h.mu.Unlock()
	link, err := dial(s.ctx, s)
	if err != nil {
		h.router.Review()
		h.failFirst(ln, s, err)
		return
	}
	defer link.Close()
	if h.drive(ln, s, link) {
		h.router.Review()
	}
}

// drive keeps the subscriptions of a link up to date. It returns true when the link breaks,
// and false when the link is not needed any more.
func (h *Hub) drive(ln *nodeConn, s *Session, link Link) bool {
	check, review := time.Tick(h.check), time.Tick(h.review) // nil, which never fires, for the interval 0
	var reviewed <-chan time.Time                            // fires when the Router should be done with a review
	// Misrouted channels are routed again only after a pause, because the server ends the
	// subscriptions of a slot one by one, and because other nodes learn a little later which
	// node serves the slot.
	var retryRoute <-chan time.Time // nil while no attempt is planned
	attempts := 0                   // number of attempts in a row
	var last time.Time              // when the latest attempt to route again began
	for s.ctx.Err() == nil {
		if misrouted := h.syncLink(ln, s, link); misrouted && retryRoute == nil {
			if time.Since(last) > 2*longestPause {
				attempts = 0
			}
			attempts++
			retryRoute = time.After(retry.Delay(attempts, longestPause))
		}
		select {
		case <-s.ctx.Done():
		case <-link.Down():
			return s.ctx.Err() == nil
		case <-ln.wake:
		case <-retryRoute:
			retryRoute, last = nil, time.Now()
			h.router.Review()
			h.reroute(ln, s)
		case <-review:
			h.router.Review()
			reviewed = time.After(longestPause)
		case <-reviewed:
			h.reroute(ln, s)
		case <-check:
			if link.Check() != nil {
				return true
			}
		}
	}
	return false
}

// syncLink subscribes and unsubscribes the changed channels at the link, and reports whether
// channels are misrouted.
func (h *Hub) syncLink(ln *nodeConn, s *Session, link Link) (misrouted bool) {
	var add, remove []string
	h.mu.Lock()
	if s.ctx.Err() != nil { // the link is about to be closed
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
			if h.idle > 0 { // the links report each reply
				s.left[name]++
			}
		}
	}
	clear(ln.changed)
	misrouted = len(ln.misrouted) > 0
	h.mu.Unlock()
	if len(remove) > 0 {
		link.Unsubscribe(remove)
	}
	if len(add) > 0 {
		link.Subscribe(add)
	}
	return misrouted
}

// failFirst is called when a connection could not be made. It removes the listeners that still
// wait for their first confirmation, and their calls of Subscribe return err. If the session
// has ended, err only means that the connection was not needed any more. Then failFirst does
// nothing: listeners that came later wait for the next connection.
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
