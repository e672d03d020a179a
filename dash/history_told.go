package dash

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// The same step may come twice: from the program that made it, and from the watcher
// who saw what became of it, up to a whole walk later. These rules make one of both.
// They go by the client, by the owner and by the token, as far as both are known: what
// one program reports says nothing of the locks of another. Only Redisson's owners are
// used twice, and a lock that goes from goroutine to goroutine has one owner.

const (
	sameThing    = 3 * time.Second        // between reported and polled events, where little is known
	readTime     = 500 * time.Millisecond // the time of a reported event may be off by this much
	mostCompared = 100                    // latest events of the name
)

// clientOf returns whose hold h is.
func clientOf(h admin.Hold) string {
	if h.Client.ID != "" {
		return h.Client.ID
	}
	return clientIn(h.Owner)
}

// clientIn returns the client in the name of an owner.
func clientIn(owner string) string {
	client, _, _ := strings.Cut(owner, ":")
	return client
}

// ends reports that a hold was over.
func (s *happening) ends() bool {
	switch s.Kind {
	case happenedRelease, happenedExpire, happenedForce, happenedLose:
		return true
	}
	return false
}

// about reports that both may be about the same hold.
func (s *happening) about(o *happening) bool {
	return may(s.client, o.client) && may(s.owner, o.owner) && may(s.Token, o.Token)
}

// may reports that two values are the same, or one is not known.
func may[T comparable](a, b T) bool {
	var unknown T
	return a == b || a == unknown || b == unknown
}

// near reports that both were at the same time, as far as clocks tell.
func (s *happening) near(o *happening) bool { return s.At.Sub(o.At).Abs() < sameThing }

// latest yields the latest events of name, the last one first. The mutex is held.
func (h *History) latest(name string, yield func(*happening) bool) {
	n := 0
	for o := h.at(h.last[name]); o != nil && n < mostCompared && yield(o); o = h.at(o.before) {
		n++
	}
}

// saw notes what polling found, unless a client reported it.
func (h *History) saw(s happening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := false
	h.latest(s.Name, func(o *happening) bool {
		if !o.told || !s.about(o) {
			return true
		}
		switch {
		case s.Kind == happenedForce:
			if known = o.Kind == happenedForce && s.near(o); known && o.Held == 0 {
				o.Who, o.purpose, o.Held = s.Who, s.purpose, s.Held // the client that forced it did not know
			}
		case s.ends():
			known = o.ends() && o.At.After(s.At.Add(-s.Held-readTime))
		case s.Kind == happenedAcquire && o.Kind == happenedAcquire:
			known = o.At.Before(s.At.Add(sameThing))
		case s.Kind == happenedAcquire && o.ends():
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

// learned notes what a program reported of itself, instead of what was polled.
func (h *History) learned(s happening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := false
	var seen *happening // the earliest that may be it
	h.latest(s.Name, func(o *happening) bool {
		switch {
		case !s.about(o):
		case o.Kind == happenedForce:
			known = s.Kind == happenedForce && o.At.Sub(s.At).Abs() < time.Minute
			if s.Kind == happenedLose && o.Held == 0 && s.near(o) {
				o.Held = s.Held // the client that forced it did not know
			}
		case o.told:
			known = o.client == "" && o.Kind == s.Kind && o.Token == s.Token && s.near(o)
			if known {
				o.client, o.owner = s.client, s.owner // it is shown once
			}
		case s.ends() && s.Kind != happenedForce && o.ends() && s.exactly(o) && o.At.After(s.At.Add(-s.Held-sameThing)):
			seen = o // a program may notice much later that its lock is gone
		case o.At.Before(s.At.Add(-sameThing)): // nobody sees what is to come
		case s.Kind == happenedAcquire && o.Kind == happenedAcquire:
			seen = o
		case s.ends() && s.Kind != happenedForce && o.ends() && o.At.Add(-o.Held).Before(s.At.Add(sameThing)):
			seen = o
		}
		return !known
	})
	switch {
	case known:
	case seen != nil:
		if s.movable() && seen.At.Before(s.At) {
			s.moveBefore(seen.At.Add(1))
		}
		h.settle(&s)
		h.parted(&s)
		s.number, s.before = seen.number, seen.before
		*seen = s
	default:
		h.settle(&s)
		h.push(s)
	}
}
