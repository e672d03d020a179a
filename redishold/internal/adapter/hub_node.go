package adapter

import (
	"maps"
	"slices"
	"time"
)

// nodeConn is the connection to one node. It exists as long as channels are routed to the
// node, and then for the time Hub.idle. The Hub's lock guards the fields that change.
type nodeConn struct {
	addr string
	wake chan struct{} // gets a value when Hub.run must read the other fields again

	dial      Dial
	topics    map[string]*topic   // the topics that are routed to the node
	changed   map[string]struct{} // channels that the link must subscribe or unsubscribe
	misrouted map[string]struct{} // channels that are routed to the node, although the node does not serve them
	session   *Session            // the current session; nil between two sessions. Reports of other sessions are ignored
	stopped   chan struct{}       // closed when the goroutine of Hub.run has ended
}

// wakeUp wakes the goroutine of Hub.run. If no topics are left, it ends the session, unless a link
// that works may stay open for the time Hub.idle. The Hub's lock is held.
func (h *Hub) wakeUp(ln *nodeConn) {
	if s := ln.session; s != nil && len(ln.topics) == 0 {
		if h.closed || h.idle == 0 || !s.confirmed {
			s.cancel()
		} else {
			h.cancelIdle(s)
		}
	}
	select {
	case ln.wake <- struct{}{}:
	default:
	}
}

// cancelIdle ends a session after the time Hub.idle, unless topics are routed to its node then. The
// goroutine of Hub.run cannot do that: its link may hang. The Hub's lock is held.
func (h *Hub) cancelIdle(s *Session) {
	if s.idle != nil {
		s.idle.Reset(h.idle)
		return
	}
	s.idle = time.AfterFunc(h.idle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(s.node.topics) == 0 {
			s.cancel()
		}
	})
}

// attach routes a topic to a node. The Hub's lock is held.
func (h *Hub) attach(name string, t *topic, node Node) {
	ln := h.nodeConns[node.Addr]
	if ln == nil {
		ln = &nodeConn{
			addr:      node.Addr,
			wake:      make(chan struct{}, 1),
			topics:    make(map[string]*topic),
			changed:   make(map[string]struct{}),
			misrouted: make(map[string]struct{}),
			stopped:   make(chan struct{}),
		}
		h.nodeConns[node.Addr] = ln
		go h.run(ln)
	}
	ln.dial = node.Dial
	ln.topics[name] = t
	t.node = ln
	h.ask(name, t)
}

// ask makes the node connection of a topic subscribe to the channel `name`. If the topic is not
// routed to that node any more, the node connection unsubscribes. The Hub's lock is held.
func (h *Hub) ask(name string, t *topic) {
	t.node.changed[name] = struct{}{}
	h.wakeUp(t.node)
}

// detach removes a topic from its node connection. The Hub's lock is held.
func (h *Hub) detach(name string, t *topic) {
	delete(t.node.topics, name)
	delete(t.node.misrouted, name)
	h.ask(name, t)
}

// misroute records that the node of a topic does not serve the channel. The Hub's lock is
// held.
func (h *Hub) misroute(name string, t *topic) {
	t.unconfirm()
	t.node.misrouted[name] = struct{}{}
	h.wakeUp(t.node)
}

// reroute asks the Router again for the nodes of the channels of ln, and moves those channels to
// their node that do not belong to the node of ln. The node connection subscribes again to the
// misrouted channels that stay. If the Router returns an error, all remaining channels stay.
func (h *Hub) reroute(ln *nodeConn, s *Session) {
	h.mu.Lock()
	names := slices.Collect(maps.Keys(ln.topics))
	for name := range ln.misrouted {
		delete(s.asked, name)
		ln.changed[name] = struct{}{}
	}
	clear(ln.misrouted)
	h.mu.Unlock()
	for _, name := range names {
		node, err := h.router.Route(s.ctx, name)
		if err != nil {
			return
		}
		h.mu.Lock()
		switch t := ln.topics[name]; {
		case t == nil:
		case node.Addr == ln.addr:
			ln.dial = node.Dial
		default:
			t.unconfirm()
			h.detach(name, t)
			h.attach(name, t, node)
		}
		h.mu.Unlock()
	}
}
