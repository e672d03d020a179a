package adapter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Switcher is a Client of one server that another one may replace, as Sentinels
// decide. Its library may leave a call to the former server alone until a timeout:
// a connection that is being made outlives the reason for it.
type Switcher interface {
	// Master returns the address of the server to which calls go now, and "" where
	// that is the same for ever, or not known. It does not block.
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
	switcher Switcher
	combiner *Combiner

	mu      sync.Mutex
	until   time.Time     // looks go on till then
	master  string        // of the latest look
	changed chan struct{} // closed when a look finds another; nil while nobody looks
}

// newServers returns nil where c is no Switcher.
func newServers(c Client, combiner *Combiner) *servers {
	s, ok := c.(Switcher)
	if !ok {
		return nil
	}
	master := s.Master()
	if master == "" {
		return nil
	}
	return &servers{switcher: s, combiner: combiner, master: master}
}

// Homes returns the one server for all calls.
func (s *servers) Homes(_ context.Context, calls []redishold.Call) []string {
	return slices.Repeat([]string{s.switcher.Master()}, len(calls))
}

// Changed is that of Cluster.
func (s *servers) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Doubt starts looks, or prolongs them.
func (s *servers) Doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(switchLooks)
	if s.changed == nil {
		s.changed = make(chan struct{})
		time.AfterFunc(0, s.look)
	}
}

// look ends the calls of a Combiner that are under way while the server changes. A
// call that was made a moment later is among them now and then; it has redirectGrace
// for its answer. Between two looks there is a timer only.
func (s *servers) look() {
	master := s.switcher.Master()
	s.mu.Lock()
	defer s.mu.Unlock()
	if master != s.master {
		s.master = master
		close(s.changed)
		s.changed = make(chan struct{})
		left := s.combiner.departures()
		time.AfterFunc(redirectGrace, func() { s.combiner.giveUp(left) })
	}
	if time.Now().Before(s.until) {
		time.AfterFunc(switchLook, s.look)
		return
	}
	s.changed = nil
}
