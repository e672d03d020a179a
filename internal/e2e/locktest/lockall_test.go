package locktest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// However many locks are free, taking them takes no longer than two round trips.
func TestLockAllOfManyNames(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const latency = 150 * time.Millisecond
		l := s.locker(nil)
		s.warm(l)
		must.Unlock(s, s.get(l.RWMutex("warm").Write.Lock))
		for name, describe := range map[string]func(name string) *holdfast.Mutex{
			"plain": l.Mutex,
			"write": func(name string) *holdfast.Mutex { return l.RWMutex(name).Write },
		} {
			var ms []*holdfast.Mutex
			for i := range 100 {
				ms = append(ms, describe(fmt.Sprintf("%s:%d", name, i)))
			}
			s.proxy.Latency(latency)
			start := time.Now()
			locks, err := holdfast.LockAll(s.Context(), ms)
			took := time.Since(start)
			s.proxy.Latency(0)
			if err != nil {
				s.Fatal(err)
			}
			within(s, "LockAll of 100 names, "+name, took, 3*latency)
			s.Logf("%s: %v at a latency of %v", name, took, latency)
			if keys := lockKeys(s.server.Admin); len(keys) != 100 {
				s.Errorf("%d keys for 100 locks", len(keys))
			}
			if err := locks.Unlock(); err != nil {
				s.Error(err)
			}
			gone(s, s.server.Admin, 0)
		}
	})
}

// The reply to a call for many locks is lost: those of all of them, and of each
// again, after the server forgot the scripts.
func TestLockAllLostReplies(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(nil)
		s.warm(l)
		var ms []*holdfast.Mutex
		for i := range 120 {
			ms = append(ms, l.Mutex(fmt.Sprintf("all:%d", i)))
		}
		for _, c := range []struct {
			script string
			action func() faultproxy.Action
		}{
			{"acquire_all", faultproxy.CutAfterExecution},
			{"acquire_all", faultproxy.Cut},
			{"release_all", faultproxy.CutAfterExecution},
			{"release_all", faultproxy.Cut},
		} {
			s.server.String("SCRIPT", "FLUSH")
			rule := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, c.script)), c.action())
			locks, err := holdfast.LockAll(s.Context(), ms)
			if err != nil {
				s.Fatal(err)
			}
			if keys := lockKeys(s.server.Admin); len(keys) != len(ms) {
				s.Errorf("%s: %d keys for %d locks", c.script, len(keys), len(ms))
			}
			if err := locks.Unlock(); err != nil {
				s.Errorf("%s: Unlock: %v", c.script, err)
			}
			rule.Wait(s, 1)
			if err := l.Drain(s.Context()); err != nil {
				s.Error(err)
			}
			gone(s, s.server.Admin, 0)
		}
	})
}

// Renewals travel together, and one that finds its lock gone ends that one alone.
func TestRenewalsOfManyLocks(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l := s.locker(&holdfast.Options{TTL: 3 * time.Second})
		s.warm(l)
		var ms []*holdfast.Mutex
		for i := range 120 {
			ms = append(ms, l.Mutex(fmt.Sprintf("all:%d", i)))
		}
		locks, err := holdfast.LockAll(s.Context(), ms)
		if err != nil {
			s.Fatal(err)
		}
		renewed := faultproxy.Script(redistest.ScriptSHA(s, "renew_all"))
		s.proxy.On(renewed, faultproxy.CutAfterExecution()).Wait(s, 1)
		s.server.String("SCRIPT", "FLUSH")
		s.server.Int("DEL", "all:42")
		var lost *holdfast.Lock
		for _, k := range locks {
			if k.Name() == "all:42" {
				lost = k
			}
		}
		select {
		case <-lost.Context(s.Context()).Done():
		case <-time.After(3 * time.Second):
			s.Fatal("the loss was not noticed")
		}
		s.proxy.On(renewed, faultproxy.Rewrite(func(reply string) string { return reply })).Wait(s, 1)
		for _, k := range locks {
			if err := k.Err(); k != lost && err != nil || k == lost && !errors.Is(err, holdfast.ErrLost) {
				s.Errorf("%s: got error %v", k.Name(), err)
			}
		}
		if err := locks.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			s.Errorf("Unlock: got %v, want that one was lost", err)
		}
		gone(s, s.server.Admin, 0)
	})
}
