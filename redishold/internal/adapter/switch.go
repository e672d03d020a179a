package adapter

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Switcher is a Client of one server that another one may replace, as Sentinels
// decide. Its library may leave a call to the former server alone until a timeout:
// a connection that is being made outlives the reason for it.
type Switcher interface {
	// Master returns the address of the server to which calls go now, and "" where
	// that is the same forever, or not known. It does not block.
	Master() string
}

// How a Switcher is looked at after a call without an answer.
const (
	switchLook  = 50 * time.Millisecond // how often
	switchLooks = 5 * time.Second       // for how long: longer than the next call may take
)

// servers looks at a Switcher while there is doubt, and ends the calls to a server
// that was replaced.
type servers struct {
	*Watch
	switcher Switcher
	combiner *Combiner
	master   string // of the latest look
}

// watchServers has s looked at after calls of c without an answer. It returns nil
// where no other server can replace that of s.
func watchServers(s Switcher, c *Combiner) Masters {
	master := s.Master()
	if master == "" {
		return nil
	}
	w := &servers{switcher: s, combiner: c, master: master}
	w.Watch = NewWatch(switchLook, switchLooks, w.refresh)
	c.doubt = w.Suspect
	return w
}

func (s *servers) Homes(_ context.Context, calls []redishold.Call) []string {
	return slices.Repeat([]string{s.switcher.Master()}, len(calls))
}

// refresh ends the calls of a Combiner that are under way while the server changes. A
// call that was made a moment later is among them now and then; it has redirectGrace
// for its answer.
func (s *servers) refresh() (changed, last bool) {
	master := s.switcher.Master()
	if master == s.master {
		return false, false
	}
	s.master = master
	left := s.combiner.departures()
	time.AfterFunc(redirectGrace, func() { s.combiner.giveUp(left) })
	return true, false
}
