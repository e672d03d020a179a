package plaintest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	// askedEvery is how long Holdfast may not notice that another library's lock
	// is free: that library sends no message. See redishold.Plain.
	askedEvery = time.Second
	// woken is how long a message may take: less than the shortest time between
	// two looks, which is 750 ms.
	woken = 600 * time.Millisecond
	// slack is what a busy machine may add.
	slack = 2 * time.Second
	// long is a lease that does not end during a test.
	long = 20 * time.Second
)

// scenario is what one case runs with: a server, a library, a name.
type scenario struct {
	*testing.T
	foreign
	client  client
	server  *redistest.Server
	adapter string
	name    string
}

// command completes c: a name that is not set is the scenario's, and threads of
// different scenarios are different.
func (s *scenario) command(c peer.Command) peer.Command {
	if c.Name == "" {
		c.Name = s.name
	}
	c.Thread = s.Name() + "/" + c.Thread
	return c
}

// tell lets the library carry out c, and returns where the answer will be.
func (s *scenario) tell(c peer.Command) <-chan peer.Reply { return s.client.Go(s.command(c)) }

// answer waits for an answer for as long as limit.
func (s *scenario) answer(replies <-chan peer.Reply, limit time.Duration) peer.Reply {
	s.Helper()
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case r, ok := <-replies:
		if !ok {
			s.Fatalf("%s ended", s.library)
		}
		return r
	case <-over.C:
		s.Fatalf("%s: no answer within %v", s.library, limit)
	}
	return peer.Reply{}
}

// try returns what the library answers, which may be something thrown.
func (s *scenario) try(c peer.Command) peer.Reply {
	s.Helper()
	return s.answer(s.tell(c), time.Duration(c.Wait)*time.Millisecond+30*time.Second)
}

// do is true if the library says so; whatever is thrown fails the test.
func (s *scenario) do(c peer.Command) bool {
	s.Helper()
	r := s.try(c)
	if err := r.Err(); err != nil {
		s.Fatalf("%s: %s %q: %v", s.library, c.Op, c.Name, err)
	}
	return r.Bool()
}

// must fails the test unless the library says true.
func (s *scenario) must(c peer.Command) {
	s.Helper()
	if !s.do(c) {
		s.Fatalf("%s: %s %q: got false, want true", s.library, c.Op, c.Name)
	}
}

// peerLocks lets the library take the lock, which is free.
func (s *scenario) peerLocks(lease time.Duration) {
	s.Helper()
	s.must(peer.Command{Op: "tryLock", Lease: lease.Milliseconds()})
}

// peerUnlocks lets the library release the lock, which it holds.
func (s *scenario) peerUnlocks() {
	s.Helper()
	s.must(peer.Command{Op: "unlock"})
}

// wantThrown fails the test if the library does not say that c went wrong.
func (s *scenario) wantThrown(c peer.Command) {
	s.Helper()
	if r := s.try(c); r.Err() == nil {
		s.Errorf("%s: %s: got %s, want something thrown", s.library, c.Op, r.Value)
	} else {
		s.Logf("%s: %s: %v", s.library, c.Op, r.Err())
	}
}

// wantPeerHolds fails the test unless the library says so, if it can.
func (s *scenario) wantPeerHolds(want bool) {
	s.Helper()
	if s.asks && s.do(peer.Command{Op: "isHeld"}) != want {
		s.Errorf("%s: is held: got %v, want %v", s.library, !want, want)
	}
}

// setting is how a Locker differs from the default.
type setting struct {
	ttl    time.Duration
	poll   time.Duration
	prefix string
	routes map[string]string
}

// locker returns a Locker of its own, with Protocol Plain.
func (s *scenario) locker(o setting) *holdfast.Locker {
	s.Helper()
	return holdfast.New(s.store(o), &holdfast.Options{TTL: o.ttl})
}

// store returns a store over a client of its own, with Protocol Plain.
func (s *scenario) store(o setting) *redishold.Backend {
	s.Helper()
	conn, closeConn, err := dial.Open(s.Context(), dial.Target{
		Adapter: s.adapter, Topology: redistest.Standalone, Seeds: []string{s.server.Addr()}, Routes: o.routes,
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(closeConn)
	return redishold.New(conn, &redishold.Options{Layout: redishold.Plain, Poll: o.poll, KeyPrefix: o.prefix})
}

// within returns a context that ends after limit.
func (s *scenario) within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	s.Cleanup(cancel)
	return ctx
}

// lock waits for the lock for at most 20 s.
func (s *scenario) lock(l *holdfast.Locker, opts ...holdfast.Option) *holdfast.Lock {
	s.Helper()
	lock, err := l.Lock(s.within(long), s.name, opts...)
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	return lock
}

// waiting starts a Lock and returns when it waits: from then on the server knows
// of somebody who listens.
func (s *scenario) waiting(l *holdfast.Locker) <-chan *holdfast.Lock {
	s.Helper()
	got := make(chan *holdfast.Lock, 1)
	ctx, cancel := context.WithTimeout(s.Context(), long)
	go func() {
		defer close(got)
		lock, err := l.Lock(ctx, s.name)
		switch {
		case err == nil:
			got <- lock
		case ctx.Err() == nil: // else the case is over
			s.Errorf("Lock: %v", err)
		}
	}()
	s.Cleanup(func() {
		cancel()
		for range got { // until it has ended
		}
	})
	channel := "holdfast:free:{" + s.name + "}"
	await.Until(s, 10*time.Second, "somebody listens on "+channel, func() bool {
		return s.server.Strings("PUBSUB", "NUMSUB", channel)[1] != "0"
	})
	return got
}

// unlock unlocks what must still be held.
func (s *scenario) unlock(lock *holdfast.Lock) {
	s.Helper()
	if err := lock.Unlock(); err != nil {
		s.Fatalf("Unlock: %v", err)
	}
}

// wantBusy fails the test unless err names the holder of the lock.
func (s *scenario) wantBusy(lock *holdfast.Lock, err error) holdfast.BusyError {
	s.Helper()
	var busy *holdfast.BusyError
	if lock != nil || !errors.As(err, &busy) {
		s.Fatalf("got lock %v and error %v, want a BusyError", lock, err)
	}
	return *busy
}

// wantLost fails the test unless err says that the lock is lost.
func (s *scenario) wantLost(err error) holdfast.LostError {
	s.Helper()
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || !errors.Is(err, holdfast.ErrLost) {
		s.Fatalf("got %v, want a LostError", err)
	}
	return *lost
}

// value is what the lock has in Redis, "" if it is free.
func (s *scenario) value() string {
	s.Helper()
	return s.server.String("GET", s.name)
}

// wantUntouched fails the test unless the lock is what it was, with no less than
// least of its lease left.
func (s *scenario) wantUntouched(value string, least, most time.Duration) {
	s.Helper()
	left := time.Duration(s.server.Int("PTTL", s.name)) * time.Millisecond
	if got := s.value(); got != value || left < least || left > most {
		s.Errorf("the lock: got %q for another %v, want %q for %v to %v", got, left, value, least, most)
	}
}

// wantBetween requires that the time at is not before earliest, and not after latest.
func (s *scenario) wantBetween(at, earliest, latest time.Time) {
	s.Helper()
	if at.Before(earliest) || at.After(latest) {
		s.Errorf("got the lock %v after the earliest moment, want 0 to %v", at.Sub(earliest), latest.Sub(earliest))
	}
}
