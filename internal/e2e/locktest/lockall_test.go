package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	lockAllActors = 6
	lockAllOps    = 60 // of each actor
)

// Processes that take several locks of different kinds at once, in any order,
// never wait in a circle; they get all or none, and leave nothing.
func TestLockAllHistory(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		c := newCrew(s)
		for range 3 {
			c.hire("lockall", plan{Actors: lockAllActors, Ops: lockAllOps, Seed: rand.Uint64()})
		}
		h := c.finish()
		swept := h.Check(judge.Rules{})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		failed := 0
		for _, o := range h.Operations {
			if o.Failed != judge.Never {
				failed++
			}
		}
		if swept.Holds < 1000 || failed < 50 || swept.Most[judge.Reader] < 2 {
			s.Errorf("%d holds, %d not granted, %d readers together: too little to judge", swept.Holds, failed, swept.Most[judge.Reader])
		}
		gone(s, s.server.Admin, 0)
		s.Logf("%d holds, %d were given up", swept.Holds, failed)
	})
}

func useLockAll(w *worker) error {
	l := w.locker()
	errs := make([]error, w.Actors)
	var wg sync.WaitGroup
	for i := range w.Actors {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for range w.Ops {
				if errs[i] = w.lockAll(l, random); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, l.Drain(w.ctx))...)
}

// lockAll takes four locks of twelve, and sometimes has a short timeout.
func (w *worker) lockAll(l *holdfast.Locker, random *rand.Rand) error {
	var ms []*holdfast.Mutex
	wanted := map[string]judge.Request{}
	for _, n := range random.Perm(12)[:4] {
		m, a := anyMutex(l, n, random)
		ms = append(ms, m)
		wanted[a.Name] = a
	}
	ops := map[string]int64{}
	for _, m := range ms {
		ops[m.Name()] = w.log.Called(wanted[m.Name()])
	}
	ctx, impatient := w.ctx, random.IntN(4) == 0
	if impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(10_000))*time.Microsecond)
		defer cancel()
	}
	locks, err := holdfast.LockAll(ctx, ms)
	if err != nil {
		for _, op := range ops {
			w.log.Answered(op, nil, err)
		}
		if len(locks) != 0 {
			return fmt.Errorf("LockAll returned %d locks and %w", len(locks), err)
		}
		if impatient && ctx.Err() != nil {
			return nil
		}
		return err
	}
	if len(locks) != len(ms) {
		return fmt.Errorf("LockAll returned %d locks of %d", len(locks), len(ms))
	}
	for _, k := range locks {
		w.log.Answered(ops[k.Name()], k, nil)
	}
	time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
	if err := locks.Err(); err != nil {
		return err
	}
	for _, op := range ops {
		w.log.Write(judge.Event{What: judge.Unlock, Op: op})
	}
	err = locks.Unlock()
	for _, op := range ops {
		w.log.Write(judge.Event{What: judge.Unlocked, Op: op, Err: judge.ErrorWord(err)})
	}
	return err
}

// anyMutex returns the n-th mutex: a third of them are plain, fair, read-write.
func anyMutex(l *holdfast.Locker, n int, random *rand.Rand) (*holdfast.Mutex, judge.Request) {
	name := fmt.Sprintf("all:%02d", n)
	switch n % 3 {
	case 0:
		return l.Mutex(name), judge.Request{Name: name, Side: judge.Exclusive}
	case 1:
		return l.FairMutex(name), judge.Request{Name: name, Side: judge.Exclusive}
	}
	rw := l.RWMutex(name)
	if random.IntN(3) == 0 {
		return rw.Write, judge.Request{Name: name, Side: judge.Writer}
	}
	return rw.Read, judge.Request{Name: name, Side: judge.Reader}
}

// However many locks are free, taking them takes no longer than two round trips.
func TestLockAllOfManyNames(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const latency = 150 * time.Millisecond
		l := s.locker(nil)
		s.warm(l)
		must.Unlock(s, take(s, l.RWMutex("warm").Write))
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
