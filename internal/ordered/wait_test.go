package ordered_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// A waiter learns the holder after a while, from a store that did not name it at first.
// That takes one more call, however long the wait is.
func TestHolderIsAskedForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		m.unnamed = true
		held, queued := ps[0].claim(), ps[1].claim()
		ps[0].granted(held, true)
		last := ps[1].granted(queued, false)
		if last.Holder != "" {
			t.Fatalf("held by %q, want that this is not known yet", last.Holder)
		}
		w := ps[1].Waiter(queued)
		defer w.Close()
		began := time.Now()
		waited(t, w, last, false)
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("asked for after %v", took)
		}
		if last = ps[1].granted(queued, false); last.Holder != "process0" {
			t.Errorf("held by %q", last.Holder)
		}
		waits(t, w, last, ttl/2)
		if n := m.count("enqueue", "queue"); n != 3 {
			t.Errorf("%d calls, want one for the holder, one for the waiter, and one that names the holder", n)
		}
	})
}

// Wait reads the queue and returns the grant. The lease of it ends with the session at the
// latest, although the caller counts from the start of its last Try.
func TestWaitReturnsTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 3)
		held, queued := ps[0].claim(), ps[1].claim()
		first := ps[0].granted(held, true)
		began := time.Now()
		last := ps[1].granted(queued, false)
		ps[2].granted(ps[2].claim(), false)
		time.Sleep(ttl / 10)
		w := ps[1].Waiter(queued)
		defer w.Close()
		go func() {
			time.Sleep(ttl / 10)
			ps[0].release(held)
		}()
		out := waited(t, w, last, true)
		if out.Token <= first.Token {
			t.Fatalf("got %+v, want a token above %d", out, first.Token)
		}
		if end := began.Add(ttl); began.Add(out.ValidFor).After(end) {
			t.Errorf("valid for %v from the last Try, which is beyond the session", out.ValidFor)
		}
		if n := m.count("queue"); n != 1 {
			t.Errorf("the queue was read %d times, want once", n)
		}
		if again := ps[1].granted(queued, true); again.Token != out.Token {
			t.Errorf("another Try has token %d, want %d", again.Token, out.Token)
		}
	})
}

// entryOf picks the entry of c.
func entryOf(c driver.Claim) func(entry) bool {
	return func(e entry) bool { return e.Label.ID == ordered.IDOf(c.Owner) }
}

// Wait returns no grant if the grant is not certain: the session lives for too short a time, the
// claim's own entry was removed, or another one is ahead.
func TestWaitLeavesItToTry(t *testing.T) {
	for name, spoil := range map[string]func(m *memory, p *process, queued driver.Claim){
		"the end of the session is near": func(*memory, *process, driver.Claim) { time.Sleep(ttl * 6 / 10) },
		"the own entry is gone":          func(m *memory, _ *process, queued driver.Claim) { m.drop(entryOf(queued)) },
		"the queue cannot be read":       func(m *memory, _ *process, _ driver.Claim) { m.spoil(nil, losing("queue")) },
		"the claim was released, and its entry is there still": func(_ *memory, p *process, queued driver.Claim) {
			p.lostRelease("remove", queued, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, ps := processes(t, 2)
				held, queued := ps[0].claim(), ps[1].claim()
				ps[0].granted(held, true)
				last := ps[1].granted(queued, false)
				spoil(m, ps[1], queued)
				w := ps[1].Waiter(queued)
				defer w.Close()
				ps[0].release(held)
				waited(t, w, last, false) // another Try finds out
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 3)
		held, leaving, queued := ps[0].claim(), ps[1].claim(), ps[2].claim()
		ps[0].granted(held, true)
		ps[1].granted(leaving, false)
		last := ps[2].granted(queued, false)
		w := ps[2].Waiter(queued)
		defer w.Close()
		ps[1].release(leaving)
		waited(t, w, last, false) // only the waiter ahead has given up
	})
}

// If a store notifies of the entry before the one ahead, the queue is read while the holder
// still holds, and not after its release.
func TestQueueIsReadBeforeTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps, claims, last := contend(t, 4, false)
		w := ps[3].Waiter(claims[3])
		defer w.Close()
		granted := make(chan driver.Outcome)
		go func() {
			out, err := w.Wait(t.Context(), last)
			if err != nil {
				t.Error(err)
			}
			granted <- out
		}()
		for i, reads := range []int{0, 1, 0} {
			before := m.count("queue")
			ps[i].release(claims[i])
			synctest.Wait()
			if n := m.count("queue") - before; n != reads {
				t.Errorf("after release %d: the queue was read %d times, want %d", i+1, n, reads)
			}
			if i < 2 {
				ps[i+1].granted(claims[i+1], true)
			}
		}
		if out := <-granted; !out.Granted {
			t.Errorf("got %+v, want a grant", out)
		}
	})
}

// The entry before the one ahead was removed, and did not hold: the queue that was read
// then gives no grant.
func TestWaitersAheadGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps, claims, last := contend(t, 4, false)
		w := ps[3].Waiter(claims[3])
		defer w.Close()
		go func() {
			for _, i := range []int{1, 2} {
				time.Sleep(time.Millisecond)
				ps[i].release(claims[i])
			}
		}()
		waited(t, w, last, false) // another holds
		last = ps[3].granted(claims[3], false)
		go ps[0].release(claims[0])
		waited(t, w, last, true)
	})
}

// The watch of the own entry outlives another Try that finds the same entry: if another
// program removes it, nothing is granted by the release that follows.
func TestOwnEntryStaysWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps, claims, last := contend(t, 3, false)
		w := ps[2].Waiter(claims[2])
		defer w.Close()
		time.AfterFunc(time.Second, func() { ps[1].release(claims[1]) })
		waited(t, w, last, false)
		last = ps[2].granted(claims[2], false)
		time.AfterFunc(time.Millisecond, func() { m.drop(entryOf(claims[2])) })
		time.AfterFunc(2*time.Millisecond, func() { ps[0].release(claims[0]) })
		waited(t, w, last, false) // a claim without an entry is granted nothing
	})
}

// If the own entry and the one ahead were both removed before Wait is called, there is no
// grant. Which event Wait receives first is random, so this is repeated.
func TestOwnEntryGoesWithTheOneAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 32 {
			m, ps, claims, last := contend(t, 2, false)
			w := ps[1].Waiter(claims[1])
			defer w.Close()
			waits(t, w, last, 300*time.Millisecond) // until the own entry is watched
			m.drop(entryOf(claims[1]))
			ps[0].release(claims[0])
			synctest.Wait()
			waited(t, w, last, false) // a claim without an entry is granted nothing
		}
	})
}

// A store that never names the holder is asked once.
func TestHolderIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 2)
		ps[0].granted(ps[0].claim(), true)
		queued := ps[1].claim()
		w := ps[1].Waiter(queued)
		defer w.Close()
		ps[1].store.unnamed, ps[1].store.neverNamed = true, true
		last := ps[1].granted(queued, false)
		for i, want := range []error{nil, context.DeadlineExceeded, context.DeadlineExceeded} {
			nap, cancel := context.WithTimeout(t.Context(), ttl/5)
			if _, err := w.Wait(nap, last); !errors.Is(err, want) {
				t.Errorf("wait %d: got error %v, want %v", i, err, want)
			}
			cancel()
			last = ps[1].granted(queued, false)
		}
	})
}

// However short a wait is, its error names the holder. While the process does not know the
// holder, a TryLock in it does not say that the process itself holds.
func TestErrorsNameTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		m.unnamed = true
		ps[0].granted(ps[0].claim(), true)
		l := holdfast.New(ps[1], nil)
		for _, limit := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second} {
			_, err := l.Lock(t.Context(), "job", holdfast.Wait(limit))
			if busy := new(holdfast.BusyError); !errors.As(err, &busy) || busy.Holder != "process0" {
				t.Errorf("after %v: got error %v, want one that names the holder", limit, err)
			}
			drain(t, l)
		}
		if _, err := l.TryLock(t.Context(), "job"); err == nil || err.Error() != `lock "job" is held by process0` {
			t.Errorf("TryLock: got error %v, want one that names the holder", err)
		}
		for after, want := range map[time.Duration]string{
			100 * time.Millisecond: `lock "job" is held by another client`,
			time.Second:            `lock "job" is held by process0`,
		} {
			waiting, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = l.Lock(waiting, "job")
			}()
			time.Sleep(after)
			if _, err := l.TryLock(t.Context(), "job"); err == nil || err.Error() != want {
				t.Errorf("TryLock beside a goroutine that has waited for %v: got error %v, want %s", after, err, want)
			}
			cancel()
			<-ended
			drain(t, l)
		}
	})
}

// drain waits until the Locker has removed the entries of callers that gave up.
func drain(t *testing.T, l *holdfast.Locker) {
	t.Helper()
	if err := l.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// The entry of a claim is watched after it has waited for a while. If it was removed
// before, its waiter is woken then.
func TestOwnEntryIsWatchedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		ps[0].granted(ps[0].claim(), true)
		queued := ps[1].claim()
		last := ps[1].granted(queued, false)
		w := ps[1].Waiter(queued)
		defer w.Close()
		for _, removed := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
			began := time.Now()
			time.AfterFunc(removed, func() { m.drop(entryOf(queued)) })
			waited(t, w, last, false)
			if took, want := time.Since(began), max(removed, 250*time.Millisecond); took != want {
				t.Errorf("removed after %v: woken after %v, want %v", removed, took, want)
			}
			last = ps[1].granted(queued, false)
		}
	})
}

// A waiter that is alone with the holder does not read the queue again. A waiter with
// others ahead, or for a read-write lock, does.
func TestReadOnce(t *testing.T) {
	for name, test := range map[string]struct {
		readWrite bool
		ahead     int
		reads     int
	}{
		"alone with the holder":   {ahead: 1, reads: 0},
		"behind a waiter":         {ahead: 2, reads: 1},
		"a writer":                {ahead: 1, readWrite: true, reads: 1},
		"a writer behind another": {ahead: 2, readWrite: true, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, ps, claims, last := contend(t, test.ahead+1, test.readWrite)
				w := ps[test.ahead].Waiter(claims[test.ahead])
				defer w.Close()
				go func() {
					for i := range test.ahead {
						time.Sleep(time.Millisecond)
						ps[i].release(claims[i])
					}
				}()
				waited(t, w, last, true)
				if n := m.count("queue"); n != test.reads {
					t.Errorf("the queue was read %d times after the release, want %d", n, test.reads)
				}
			})
		})
	}
}
