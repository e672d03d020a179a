package adapter

import (
	"errors"

	"github.com/holdfast-go/holdfast/redishold"
)

// Events is where a Link reports, from its reading goroutine, what the server
// says.
type Events struct {
	hub     *Hub
	lane    *lane
	session *session
}

// topic returns a channel's topic, or nil if nobody listens here or the session
// is over: who comes after its last listener must not get its answers. The Hub's
// lock is held.
func (e Events) topic(name string) *topic {
	if e.lane.session != e.session || e.session.ctx.Err() != nil {
		return nil
	}
	if t := e.hub.topics[name]; t != nil && t.lane == e.lane {
		return t
	}
	return nil
}

// Subscribed says that the server confirmed a channel.
func (e Events) Subscribed(name string) {
	h := e.hub
	h.mu.Lock()
	e.session.heard = true
	var fresh []*listener
	if t := e.topic(name); t != nil {
		delete(e.lane.astray, name)
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
		l.tell(redishold.Notice{Subscribed: true})
	}
}

// Unsubscribed says that the server ended a channel's subscription. If that was
// not asked for, the channel's slot has moved. If it was, its listeners came
// meanwhile, and asking once more does no harm.
func (e Events) Unsubscribed(name string) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if t := e.topic(name); t != nil {
		e.hub.lose(name, t)
	}
}

// Denied says that the server refused a channel. Listeners who were never
// confirmed get err, unless another node serves the channel; the others stay and
// are tried with the next link, or at the next node.
func (e Events) Denied(name string, err error) {
	if reply := (*redishold.ReplyError)(nil); !errors.As(err, &reply) {
		e.hub.router.Doubt(e.lane.addr) // there is no link
	}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	t := e.topic(name)
	if t == nil {
		return
	}
	if !isElsewhere(err) && !e.hub.drop(name, t, err) {
		return
	}
	if isElsewhere(err) || isNowhere(err) {
		e.hub.lose(name, t)
	}
}

// Message passes a message on to the listeners who have been confirmed.
func (e Events) Message(name, payload string) {
	e.hub.mu.Lock()
	var listeners []*listener
	if t := e.topic(name); t != nil {
		listeners = t.confirmed()
	}
	e.hub.mu.Unlock()
	for _, l := range listeners {
		l.tell(redishold.Notice{Payload: payload})
	}
}
