// Package rowstest has tests for every table of locks, in addition to driver/drivertest.
package rowstest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// Turns checks that waiters for a name get it in the order of their arrival, and that a
// waiter that has died delays the others by one rows.Turn.
func Turns(t *testing.T, b driver.Backend) {
	for name, check := range map[string]func(*turns){
		"Order": order, "Gone": gone, "GivesUp": givesUp, "HolderDies": holderDies, "NobodyWaits": nobodyWaits,
	} {
		t.Run(name, func(t *testing.T) { check(&turns{TB: t, b: b, name: "turns of " + name}) })
	}
}

type turns struct {
	testing.TB
	b    driver.Backend
	name string
	made uint64
}

// claim returns a new claim on the name.
func (s *turns) claim() driver.Claim {
	s.made++
	return driver.Claim{
		Name: s.name, Client: s.name, Seq: s.made, Owner: fmt.Sprintf("%s:%d", s.name, s.made), TTL: 20 * time.Second, Count: 1, Tokens: 1,
	}
}

// passing returns a claim that does not wait.
func (s *turns) passing() driver.Claim {
	c := s.claim()
	c.NoQueue = true
	return c
}

func (s *turns) try(c driver.Claim) driver.Outcome {
	s.Helper()
	o, err := s.b.Try(context.Background(), c)
	if err != nil {
		s.Fatalf("Try(%s): got error %v", c.Owner, err)
	}
	return o
}

func (s *turns) granted(c driver.Claim) {
	s.Helper()
	if o := s.try(c); !o.Granted {
		s.Fatalf("Try(%s): got %+v, want a grant", c.Owner, o)
	}
}

func (s *turns) refused(c driver.Claim) {
	s.Helper()
	if o := s.try(c); o.Granted || o.Queued == c.NoQueue {
		s.Fatalf("Try(%s): got %+v, want a refusal, with a place in the queue: %v", c.Owner, o, !c.NoQueue)
	}
}

func (s *turns) released(c driver.Claim) {
	s.Helper()
	if err := s.b.Release(context.Background(), c); err != nil {
		s.Fatalf("Release(%s): got error %v", c.Owner, err)
	}
}

// grantedBy tries c until it is granted, and fails the test if a Try after the time `then` is
// still refused.
func (s *turns) grantedBy(c driver.Claim, then time.Time) {
	s.Helper()
	for !s.try(c).Granted {
		if time.Now().After(then) {
			s.Fatalf("Try(%s): still refused", c.Owner)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func order(s *turns) {
	holder, first, second, third := s.claim(), s.claim(), s.claim(), s.claim()
	s.granted(holder)
	for _, c := range []driver.Claim{first, second, third, second, first} { // a repeated Try changes no position
		s.refused(c)
	}
	s.refused(s.passing())
	for _, next := range []driver.Claim{first, second, third} {
		freed := time.Now()
		s.released(holder)
		if got := s.try(s.passing()); got.Granted && time.Since(freed) < rows.Turn {
			s.Fatal("a claim with NoQueue was granted before the waiters")
		} else if got.Granted {
			s.Skip("the machine stood still for longer than a turn")
		}
		s.granted(next)
		holder = next
	}
	s.released(holder)
	s.granted(s.passing())
}

// gone checks that a waiter that never tries again delays the next waiter by one turn, and no
// later claim.
func gone(s *turns) {
	holder, dead, alive := s.claim(), s.claim(), s.claim()
	s.granted(holder)
	s.refused(dead)
	s.refused(alive)
	freed := time.Now()
	s.released(holder)
	s.grantedBy(alive, freed.Add(5*time.Second))
	if took := time.Since(freed); took < rows.Turn-10*time.Millisecond {
		s.Errorf("the second was granted after %v, want that the first has its turn of %v", took, rows.Turn)
	}
	s.released(alive)
	s.granted(s.passing()) // the dead waiter delays nobody again
}

func givesUp(s *turns) {
	holder, first, second := s.claim(), s.claim(), s.claim()
	s.granted(holder)
	s.refused(first)
	s.refused(second)
	if answers, err := s.b.Renew(context.Background(), []driver.Claim{first}); err != nil || !errors.Is(answers[0].Err, driver.ErrGone) {
		s.Errorf("Renew of a claim that waits: got %v, %v, want ErrGone: it is not held", answers, err)
	}
	s.released(first)
	if err := s.b.Release(context.Background(), first); !errors.Is(err, driver.ErrGone) {
		s.Errorf("Release repeated: got error %v, want ErrGone", err)
	}
	s.released(holder)
	s.granted(second)
	third := s.claim()
	s.refused(third)
	s.released(second)
	s.released(third) // on its turn
	s.granted(s.passing())
}

// holderDies checks that the first waiter is granted when the lease of the holder has expired.
func holderDies(s *turns) {
	holder, first := s.claim(), s.claim()
	holder.TTL = 200 * time.Millisecond
	s.granted(holder)
	if !s.try(first).Granted { // else the machine stood still
		s.grantedBy(first, time.Now().Add(5*time.Second))
	}
	if err := s.b.Release(context.Background(), holder); !errors.Is(err, driver.ErrGone) {
		s.Errorf("Release of the dead holder: got error %v, want ErrGone", err)
	}
	s.refused(s.passing())
	s.released(first)
	s.granted(s.passing())
}

func nobodyWaits(s *turns) {
	for range 5 {
		c := s.claim()
		s.granted(c)
		s.refused(s.passing())
		s.released(c)
	}
}
