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

	dial    func(ctx context.Context, ev Events) (Link, error)
	topics  int                 // how many are routed here
	changed map[string]struct{} // channels that the link has to be told of
	astray  map[string]struct{} // channels that were routed here and that the node does not serve
	cancel  context.CancelFunc  // ends the current session; nil if there is none
	session *session            // the one whose events count; a closed link may still have some to tell
	stopped chan struct{}       // closed when the running goroutine has ended
}

// session is the life of one link.
type session struct {
	ctx   context.Context     // ends when nobody needs the link any more
	asked map[string]struct{} // what the link subscribes; only for the running goroutine
	heard bool                // the server confirmed something; under Hub.mu
}

// stir wakes the running goroutine, and ends its session if nobody listens any
// more. The Hub's lock is held.
func (ln *lane) stir() {
	if ln.topics == 0 && ln.cancel != nil {
		ln.cancel()
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
			changed: make(map[string]struct{}),
			astray:  make(map[string]struct{}),
			stopped: make(chan struct{}),
		}
		h.lanes[node.Addr] = ln
		go h.run(ln)
	}
	ln.dial = node.Dial
	ln.topics++
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
	t.lane.topics--
	delete(t.lane.astray, name)
	h.ask(name, t)
}

// lose notes that a topic's node does not serve it. The Hub's lock is held.
func (h *Hub) lose(name string, t *topic) {
	for _, l := range t.listeners {
		l.confirmed = false
	}
	t.lane.astray[name] = struct{}{}
	t.lane.stir()
}

// lost takes the channels of a lane that have to be sought elsewhere, and has
// the lane ask again for those that stay.
func (h *Hub) lost(ln *lane, s *session) []string {
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

// strayed reports whether a lane has channels to be sought elsewhere.
func (h *Hub) strayed(ln *lane) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(ln.astray) > 0
}

// names returns the channels of a lane.
func (h *Hub) names(ln *lane) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, ln.topics)
	for name, t := range h.topics {
		if t.lane == ln {
			names = append(names, name)
		}
	}
	return names
}

// reroute asks the Router for channels of a lane once more and moves those that
// are elsewhere. Where there is no answer, all stays as it is.
func (h *Hub) reroute(ctx context.Context, ln *lane, names []string) {
	for _, name := range names {
		node, err := h.router.Route(ctx, name)
		if err != nil {
			return
		}
		h.move(ln, name, node)
	}
}

func (h *Hub) move(from *lane, name string, to Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	switch {
	case t == nil || t.lane != from:
	case to.Addr == from.addr:
		from.dial = to.Dial
	default:
		for _, l := range t.listeners {
			l.confirmed = false
		}
		h.displace(name, t)
		h.place(name, t, to)
	}
}
