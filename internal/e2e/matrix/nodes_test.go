package matrix

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/quorum"
)

// Faults of some of the five servers of a quorum.

func killedMinority(s *scenario) {
	s.minority((*redistest.Server).Kill, (*redistest.Server).Restart)
}

func killedMajority(s *scenario) {
	c, o := s.client(), s.client()
	k := c.take()
	for _, server := range s.alone[:3] {
		server.Kill()
	}
	killed := time.Now()
	k.lost(killed, s.ttl)
	_, err := o.try(s.lasting(300 * time.Millisecond))
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
	for _, server := range s.alone[:3] {
		server.Restart()
	}
	o.take().mustUnlock()
}

// slowNode: one server answers two seconds late.
func slowNode(s *scenario) {
	c := s.client()
	c.mesh.Proxies()[2].Latency(2 * time.Second)
	for range 3 {
		asked := time.Now()
		k := c.take()
		s.within("Lock", time.Since(asked), 300*time.Millisecond)
		asked = time.Now()
		k.mustUnlock()
		s.within("Unlock", time.Since(asked), 300*time.Millisecond)
	}
	k := c.take()
	k.stays(s.ttl)
	k.mustUnlock()
	c.mesh.Proxies()[2].Latency(0)
}

// forgetfulNode: the server that two majorities have in common comes back empty.
// A quorum gives it no vote until it has been up for as long as a lease may last.
func forgetfulNode(s *scenario) {
	s.distrust = &quorum.Options{MaxTTL: s.ttl}
	c, o := s.client(), s.client()
	c.reach(0, 1, 2)
	o.reach(2, 3, 4)
	k := c.take()
	s.alone[2].Kill()
	s.alone[2].Restart()
	restarted := time.Now()
	if _, err := o.ofKindNow(s.lasting(s.ttl/2), mutex); err == nil {
		s.Error("a second majority granted the lock")
	}
	k.lost(restarted, s.ttl)
	c.reach(0, 1, 2, 3, 4)
	o.reach(0, 1, 2, 3, 4)
}

// reach cuts the client off from all servers but these.
func (c *client) reach(nodes ...int) {
	reached := map[string]bool{}
	for _, n := range nodes {
		reached[c.alone[n].Addr()] = true
	}
	for _, server := range c.alone {
		c.mesh.Proxy(server.Addr()).Blackhole(!reached[server.Addr()])
	}
}
