package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
)

// Session is the life of one link, and what is done for it before. It is also where the
// Link reports, from its reading goroutine, what the server says.
type Session struct {
	hub       *Hub
	node      *nodeConn
	ctx       context.Context // ends when nobody needs the link any more
	cancel    context.CancelFunc
	asked     map[string]struct{} // what the link subscribes; only for the running goroutine
	confirmed bool                // the server has confirmed a subscription; under Hub.mu
}

// Sharded reports whether the channels are sharded ones.
func (s *Session) Sharded() bool { return s.hub.sharded }

// topic returns a channel's topic, or nil if nobody listens here or the session
// is over: a newcomer after its last listener must not get its answers. The Hub's
// lock is held.
func (s *Session) topic(name string) *topic {
	if s.node.session != s || s.ctx.Err() != nil {
		return nil
	}
	return s.node.topics[name]
}

// Confirmed passes on the server's answer to a command, which names its kind.
func (s *Session) Confirmed(kind, channel string) {
	switch kind {
	case "subscribe", "ssubscribe":
		s.Subscribed(channel)
	case "unsubscribe", "sunsubscribe":
		s.Unsubscribed(channel)
	}
}

// Subscribed says that the server confirmed a channel.
func (s *Session) Subscribed(name string) {
	h := s.hub
	h.mu.Lock()
	s.confirmed = true
	var fresh []*listener
	if t := s.topic(name); t != nil {
		delete(s.node.astray, name)
		for _, l := range t.listeners {
			if !l.confirmed {
				l.confirmed = true
				l.settle(nil)
				fresh = append(fresh, l)
			}
		}
	}
	h.mu.Unlock()
	for _, l := range fresh {
		l.deliver(redishold.Notice{Subscribed: true})
	}
}

// Unsubscribed says that the server ended a channel's subscription. If that was
// not asked for, the channel's slot has moved. If it was, its listeners came
// meanwhile, and asking once more does no harm.
func (s *Session) Unsubscribed(name string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if t := s.topic(name); t != nil {
		s.hub.lose(name, t)
	}
}

// Denied says that the server refused a channel. Listeners who were never
// confirmed get err, unless another node serves the channel; the others stay and
// are tried with the next link, or at the next node.
func (s *Session) Denied(name string, err error) {
	why := code(err)
	if why == "" {
		s.hub.router.Review(s.node.addr) // there is no link
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	t := s.topic(name)
	if t == nil {
		return
	}
	switch {
	case why != "MOVED" && !s.hub.drop(name, t, err):
	case why == "MOVED", why == "CLUSTERDOWN": // nobody serves it at the moment
		s.hub.lose(name, t)
	}
}

// Message passes a message on to the listeners who have been confirmed.
func (s *Session) Message(name, payload string) {
	s.hub.mu.Lock()
	var listeners []*listener
	if t := s.topic(name); t != nil {
		listeners = t.confirmed()
	}
	s.hub.mu.Unlock()
	for _, l := range listeners {
		l.deliver(redishold.Notice{Payload: payload})
	}
}
