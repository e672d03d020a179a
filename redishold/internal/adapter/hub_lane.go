package adapter

import (
	"context"
	"maps"
	"slices"
)

// lane is the way to one node, for as long as channels are routed there. The
// Hub's lock guards what is not constant.
type lane struct {
	addr string
	wake chan struct{} // something changed

	dial    Dial
	topics  map[string]*topic   // those that are routed here
	changed map[string]struct{} // channels that the link has to be notified of
	astray  map[string]struct{} // channels that were routed here and that the node does not serve
	session *Session            // the one that counts, nil between two; a closed link may still have something to tell
	stopped chan struct{}       // closed when the running goroutine has ended
}

// stir wakes the running goroutine, and ends its session if nobody listens any
// more. The Hub's lock is held.
func (ln *lane) stir() {
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
	ln := h.lanes[node.Addr]
	if ln == nil {
		ln = &lane{
			addr:    node.Addr,
			wake:    make(chan struct{}, 1),
			topics:  make(map[string]*topic),
			changed: make(map[string]struct{}),
			astray:  make(map[string]struct{}),
			stopped: make(chan struct{}),
		}
		h.lanes[node.Addr] = ln
		go h.run(ln)
	}
	ln.dial = node.Dial
	ln.topics[name] = t
	t.lane = ln
	h.ask(name, t)
}

// ask has a topic's lane subscribe it, or unsubscribe it if it is not there any
// more. The Hub's lock is held.
func (h *Hub) ask(name string, t *topic) {
	t.lane.changed[name] = struct{}{}
	t.lane.stir()
}

// displace takes a topic from its lane. The Hub's lock is held.
func (h *Hub) displace(name string, t *topic) {
	delete(t.lane.topics, name)
	delete(t.lane.astray, name)
	h.ask(name, t)
}

// lose notes that a topic's node does not serve it. The Hub's lock is held.
func (h *Hub) lose(name string, t *topic) {
	t.unconfirm()
	t.lane.astray[name] = struct{}{}
	t.lane.stir()
}

// lost takes the channels of a lane that have to be sought elsewhere, and has
// the lane ask again for those that stay.
func (h *Hub) lost(ln *lane, s *Session) []string {
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

func (h *Hub) names(ln *lane) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(ln.topics))
}

// reroute asks the Router for channels of a lane once more and moves those that
// are elsewhere. Where there is no answer, all stays as it is.
func (h *Hub) reroute(ctx context.Context, ln *lane, names []string) {
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
