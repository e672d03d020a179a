package adapter

import (
	"context"
	"maps"
	"slices"
)

// nodeConn is the way to one node, for as long as channels are routed there. The
// Hub's lock guards what is not constant.
type nodeConn struct {
	addr string
	wake chan struct{} // something changed

	dial    Dial
	topics  map[string]*topic   // those that are routed here
	changed map[string]struct{} // channels that the link has to be notified of
	astray  map[string]struct{} // channels that were routed here and that the node does not serve
	session *Session            // the one that counts, nil between two; a closed link may still have something to tell
	stopped chan struct{}       // closed when the running goroutine has ended
}

// wakeUp wakes the running goroutine, and ends its session if nobody listens any
// more. The Hub's lock is held.
func (ln *nodeConn) wakeUp() {
	if len(ln.topics) == 0 && ln.session != nil {
		ln.session.cancel()
	}
	select {
	case ln.wake <- struct{}{}:
	default:
	}
}

// place routes a topic to a node. The Hub's lock is held.
func (h *Hub) place(name string, t *topic, node Node) {
	ln := h.nodeConns[node.Addr]
	if ln == nil {
		ln = &nodeConn{
			addr:    node.Addr,
			wake:    make(chan struct{}, 1),
			topics:  make(map[string]*topic),
			changed: make(map[string]struct{}),
			astray:  make(map[string]struct{}),
			stopped: make(chan struct{}),
		}
		h.nodeConns[node.Addr] = ln
		go h.run(ln)
	}
	ln.dial = node.Dial
	ln.topics[name] = t
	t.node = ln
	h.ask(name, t)
}

// ask has a topic's node connection subscribe it, or unsubscribe it if it is not there any
// more. The Hub's lock is held.
func (h *Hub) ask(name string, t *topic) {
	t.node.changed[name] = struct{}{}
	t.node.wakeUp()
}

// displace takes a topic from its node connection. The Hub's lock is held.
func (h *Hub) displace(name string, t *topic) {
	delete(t.node.topics, name)
	delete(t.node.astray, name)
	h.ask(name, t)
}

// lose notes that a topic's node does not serve it. The Hub's lock is held.
func (h *Hub) lose(name string, t *topic) {
	t.unconfirm()
	t.node.astray[name] = struct{}{}
	t.node.wakeUp()
}

// lost takes the channels of a node connection that have to be sought elsewhere, and has
// the node connection ask again for those that stay.
func (h *Hub) lost(ln *nodeConn, s *Session) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := slices.Collect(maps.Keys(ln.astray))
	clear(ln.astray)
	for _, name := range names {
		delete(s.asked, name)
		ln.changed[name] = struct{}{}
	}
	return names
}

func (h *Hub) names(ln *nodeConn) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(ln.topics))
}

// reroute asks the Router for channels of a node connection once more and moves those that
// are elsewhere. Where there is no answer, all stays as it is.
func (h *Hub) reroute(ctx context.Context, ln *nodeConn, names []string) {
	for _, name := range names {
		node, err := h.router.Route(ctx, name)
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
			h.displace(name, t)
			h.place(name, t, node)
		}
		h.mu.Unlock()
	}
}
