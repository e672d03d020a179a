package dash

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// The log may get the same event twice: the program reports it, and polling finds it,
// up to a whole round of polling later. The rules here make one event of the two. They
// compare client, owner and token, as far as both events have them, because a report of
// one program says nothing about the locks of another. One owner can have several holds
// in turn only in Redisson, and where a lock goes from goroutine to goroutine.

const (
	sameEvent    = 3 * time.Second        // between reported and polled events, where little is known
	readTime     = 500 * time.Millisecond // the time of a reported event may be off by this much
	mostCompared = 100                    // latest events of the name
)

// clientOf returns the client that has the hold h.
func clientOf(h admin.Hold) string {
	if h.Client.ID != "" {
		return h.Client.ID
	}
	return clientIn(h.Owner)
}

// clientIn returns the part of an owner that names its client.
func clientIn(owner string) string {
	client, _, _ := strings.Cut(owner, ":")
	return client
}

// ends reports whether a hold ended with s.
func (s *event) ends() bool {
	switch s.Kind {
	case eventReleased, eventExpired, eventForced, eventLost:
		return true
	}
	return false
}

// about reports whether both may be about the same hold.
func (s *event) about(o *event) bool {
	return may(s.client, o.client) && may(s.owner, o.owner) && may(s.Token, o.Token)
}

// may reports whether two values are equal, or one of them is not known.
func may[T comparable](a, b T) bool {
	var unknown T
	return a == b || a == unknown || b == unknown
}

// near reports whether both were at the same time, within the error of clocks.
func (s *event) near(o *event) bool { return s.At.Sub(o.At).Abs() < sameEvent }

// latest yields the latest events of name, the last one first. The mutex is held.
func (h *EventLog) latest(name string, yield func(*event) bool) {
	n := 0
	for o := h.at(h.last[name]); o != nil && n < mostCompared && yield(o); o = h.at(o.before) {
		n++
	}
}

// addPolled adds an event that polling found, unless a client reported the same event.
func (h *EventLog) addPolled(s event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := false
	h.latest(s.Name, func(o *event) bool {
		if !o.reported || !s.about(o) {
			return true
		}
		switch {
		case s.Kind == eventForced:
			if known = o.Kind == eventForced && s.near(o); known && o.Held == 0 {
				o.Who, o.purpose, o.Held = s.Who, s.purpose, s.Held // the client that forced it did not know
			}
		case s.ends():
			known = o.ends() && o.At.After(s.At.Add(-s.Held-readTime))
		case s.Kind == eventAcquired && o.Kind == eventAcquired:
			known = o.At.Before(s.At.Add(sameEvent))
		case s.Kind == eventAcquired && o.ends():
			return o.At.After(s.At) // it was another hold before
		default:
			known = o.Kind == s.Kind && s.near(o)
		}
		return !known
	})
	if !known {
		h.settle(&s)
		h.push(s)
	}
}

// addReported adds an event that a program reported. It replaces the same event that
// polling found.
func (h *EventLog) addReported(s event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := false
	var polled *event // the earliest that may be the same event
	h.latest(s.Name, func(o *event) bool {
		switch {
		case !s.about(o):
		case o.Kind == eventForced:
			known = s.Kind == eventForced && o.At.Sub(s.At).Abs() < time.Minute
			if s.Kind == eventLost && o.Held == 0 && s.near(o) {
				o.Held = s.Held // the client that forced it did not know
			}
		case o.reported:
			known = o.client == "" && o.Kind == s.Kind && o.Token == s.Token && s.near(o)
			if known {
				o.client, o.owner = s.client, s.owner // one event for both
			}
		case s.ends() && s.Kind != eventForced && o.ends() && s.exactly(o) && o.At.After(s.At.Add(-s.Held-sameEvent)):
			polled = o // a program may notice much later that its lock is gone
		case o.At.Before(s.At.Add(-sameEvent)): // polling cannot find it before it happens
		case s.Kind == eventAcquired && o.Kind == eventAcquired:
			polled = o
		case s.ends() && s.Kind != eventForced && o.ends() && o.At.Add(-o.Held).Before(s.At.Add(sameEvent)):
			polled = o
		}
		return !known
	})
	switch {
	case known:
	case polled != nil:
		if s.movable() && polled.At.Before(s.At) {
			s.moveBefore(polled.At.Add(1))
		}
		h.settle(&s)
		h.closeRenewals(&s)
		s.number, s.before = polled.number, polled.before
		*polled = s
	default:
		h.settle(&s)
		h.push(s)
	}
}
