// Package rowstest has tests for every table of locks, in addition to driver/drivertest.
package rowstest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// Turns checks that waiters for a name get it in the order of their arrival, and that a
// waiter that has died delays the others by one rows.Turn.
func Turns(t *testing.T, b driver.Backend) {
	for name, check := range map[string]func(*turns){
		"Order": order, "Gone": gone, "GivesUp": givesUp, "HolderDies": holderDies, "NobodyWaits": nobodyWaits,
	} {
		t.Run(name, func(t *testing.T) {
			p, end := conformance.NewProbe(t, "turns", b, 20*time.Second)
			defer end()
			check(&turns{p})
		})
	}
}

type turns struct{ *conformance.Probe }

// refused checks that the Backend refuses each claim in cs, and that each claim without NoQueue
// enters the queue.
func (s *turns) refused(cs ...driver.Claim) {
	s.Helper()
	for _, c := range cs {
		if o := s.MustRefuse(c, "of a name that is held or waited for"); o.Queued == c.NoQueue {
			s.Fatalf("Try(%s): got %+v, want a place in the queue: %v", c.Owner, o, !c.NoQueue)
		}
	}
}

func order(s *turns) {
	holder, first, second, third := s.Claim(), s.Claim(), s.Claim(), s.Claim()
	s.MustGrant(holder, "of a free name")
	s.refused(first, second, third, second, first) // a repeated Try changes no position
	s.refused(s.Passing())
	for _, next := range []driver.Claim{first, second, third} {
		freed := time.Now()
		s.MustRelease(holder, "of the holder")
		if got := s.Try(s.Passing()); got.Granted && time.Since(freed) < rows.Turn {
			s.Fatal("a claim with NoQueue was granted before the waiters")
		} else if got.Granted {
			s.Skip("the machine stood still for longer than a turn")
		}
		s.MustGrant(next, "by the first waiter")
		holder = next
	}
	s.MustRelease(holder, "of the last waiter")
	s.MustGrant(s.Passing(), "of a name without waiters")
}

// gone checks that a waiter that never tries again delays the next waiter by one turn, and does
// not delay later claims.
func gone(s *turns) {
	holder, dead, alive := s.Claim(), s.Claim(), s.Claim()
	s.MustGrant(holder, "of a free name")
	s.refused(dead, alive)
	freed := time.Now()
	s.MustRelease(holder, "of the holder")
	s.MustGrantBy(alive, freed.Add(5*time.Second), "behind a dead waiter")
	if took := time.Since(freed); took < rows.Turn-10*time.Millisecond {
		s.Errorf("the second was granted after %v, want that the first has its turn of %v", took, rows.Turn)
	}
	s.MustRelease(alive, "of the waiter behind a dead one")
	s.MustGrant(s.Passing(), "after the dead waiter, which delays nobody again")
}

func givesUp(s *turns) {
	holder, first, second := s.Claim(), s.Claim(), s.Claim()
	s.MustGrant(holder, "of a free name")
	s.refused(first, second)
	s.MustNotRenew(first, "of a claim that waits")
	s.MustRelease(first, "of a claim that waits")
	s.MustNotRelease(first, "of a claim that waited, repeated")
	s.MustRelease(holder, "of the holder")
	s.MustGrant(second, "by the waiter that is left")
	third := s.Claim()
	s.refused(third)
	s.MustRelease(second, "of the holder")
	s.MustRelease(third, "of a waiter on its turn")
	s.MustGrant(s.Passing(), "of a name without waiters")
}

// holderDies checks that the first waiter is granted when the lease of the holder has expired.
func holderDies(s *turns) {
	holder, first := s.Claim(), s.Claim()
	holder.TTL = 200 * time.Millisecond
	s.MustGrant(holder, "of a free name")
	s.MustGrantBy(first, time.Now().Add(5*time.Second), "after the lease of the holder")
	s.MustNotRelease(holder, "of the dead holder")
	s.refused(s.Passing())
	s.MustRelease(first, "of the waiter")
	s.MustGrant(s.Passing(), "of a name without waiters")
}

func nobodyWaits(s *turns) {
	for range 5 {
		c := s.Claim()
		s.MustGrant(c, "of a free name")
		s.refused(s.Passing())
		s.MustRelease(c, "of the holder")
	}
}
