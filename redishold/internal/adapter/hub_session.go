package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Session lasts from the dialling of one link until the end of that link. The Link reports the
// replies and the messages of the server to its Session, from the goroutine that reads.
type Session struct {
	hub       *Hub
	node      *nodeConn
	ctx       context.Context // ends when the link is not needed any more
	cancel    context.CancelFunc
	asked     map[string]struct{} // channels that were passed to Link.Subscribe; used only by the goroutine of Hub.run
	confirmed bool                // the server has confirmed a subscription; guarded by Hub.mu
	idle      *time.Timer         // ends the session, see cancelIdle; nil until it is needed; guarded by Hub.mu
	left      map[string]int      // how often a channel was passed to Link.Unsubscribe without a reply yet, see KeepLinks; guarded by Hub.mu
}

// Sharded reports whether the channels are sharded ones.
func (s *Session) Sharded() bool { return s.hub.sharded }

// topic returns the topic of a channel. It returns nil if the channel has no listener, or if
// the session has ended: a listener that comes after the end must not get replies of this
// session. The Hub's lock is held.
func (s *Session) topic(name string) *topic {
	if s.node.session != s || s.ctx.Err() != nil {
		return nil
	}
	return s.node.topics[name]
}

// Confirmed calls Subscribed or Unsubscribed for a reply of the server. The parameter `kind` is
// the name of the command that the server has confirmed. An error reply to an UNSUBSCRIBE counts
// as its confirmation.
func (s *Session) Confirmed(kind, channel string) {
	switch kind {
	case "subscribe", "ssubscribe":
		s.Subscribed(channel)
	case "unsubscribe", "sunsubscribe":
		s.Unsubscribed(channel)
	}
}

// Subscribed records that the server has confirmed the subscription to a channel, and notifies
// the listeners that have waited for the confirmation. If the server has not replied to an
// UNSUBSCRIBE yet, the confirmation is that of an earlier subscription: replies have the order of
// the commands.
func (s *Session) Subscribed(name string) {
	h := s.hub
	h.mu.Lock()
	s.confirmed = true
	var fresh []*listener
	if t := s.topic(name); t != nil && s.left[name] == 0 {
		delete(s.node.misrouted, name)
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

// Unsubscribed records that the server has ended the subscription to a channel. If the Hub has not
// unsubscribed, the slot of the channel has moved. Then the Hub routes and subscribes again, if
// the channel has listeners. The listeners of a channel from which the Hub has unsubscribed came
// later: the reply to their own subscription follows.
func (s *Session) Unsubscribed(name string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if n := s.left[name]; n > 0 {
		if s.left[name] = n - 1; n == 1 {
			delete(s.left, name)
		}
		return
	}
	if t := s.topic(name); t != nil {
		s.hub.misroute(name, t)
	}
}

// Denied records that the server has refused the subscription to a channel. For listeners that
// were never confirmed, Subscribe returns err, unless another node serves the channel. The
// other listeners stay, and the next link subscribes to the channel again.
func (s *Session) Denied(name string, err error) {
	why := code(err)
	if why == "" {
		s.hub.router.Review() // err is no reply: the link is broken
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	t := s.topic(name)
	if t == nil {
		return
	}
	switch {
	case why != "MOVED" && !s.hub.drop(name, t, err):
	case why == "MOVED", why == "CLUSTERDOWN": // CLUSTERDOWN: no node serves the channel at the moment
		s.hub.misroute(name, t)
	}
}

// Message delivers a message to the confirmed listeners of its channel.
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
