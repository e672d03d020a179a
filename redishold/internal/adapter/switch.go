package adapter

import (
	"context"
	"time"
)

// Switcher is a Client for one master that Sentinels may replace. In its library, a call to the
// former master may wait until a timeout, for example because a connection is still being made.
type Switcher interface {
	// Master returns the address of the server to which calls go now. It returns "" if that
	// server never changes, or is not known. It does not block.
	Master() string
}

// A Switcher is polled after a call without a reply.
const (
	masterPollEvery = 50 * time.Millisecond // the interval of the polls
	masterPollFor   = 5 * time.Second       // how long to poll: longer than the next call may take
)

// servers is a Masters that polls a Switcher, and ends the calls to a replaced server.
type servers struct {
	*Poller
	switcher Switcher
	combiner *Combiner
	master   string // the address of the master at the latest poll
}

// pollMasters returns a Masters for s and c. It returns nil if s does not know the address of its
// server, or if that server never changes.
func pollMasters(s Switcher, c *Combiner) Masters {
	master := s.Master()
	if master == "" {
		return nil
	}
	w := &servers{switcher: s, combiner: c, master: master}
	w.Poller = NewPoller(masterPollEvery, masterPollFor, w.refresh)
	return w
}

func (s *servers) Home(context.Context, string) string { return s.switcher.Master() }

// refresh finds out whether the master has changed. If so, the calls of the Combiner that are
// in flight now end after redirectGrace: some may have gone to the new master, and need that
// time for their replies.
func (s *servers) refresh() (changed, last bool) {
	master := s.switcher.Master()
	if master == s.master {
		return false, false
	}
	s.master = master
	batch := s.combiner.lastBatch()
	time.AfterFunc(redirectGrace, func() { s.combiner.giveUp(0, batch, errDeposed) })
	return true, false
}
