package locktest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// listens has l hold a lock until the server has its subscription to notices, which
// it keeps until the function that is returned releases the lock.
func (s *subject) listens(l *holdfast.Locker) (release func()) {
	s.Helper()
	long := must.Lock(s, l, "held for long")
	if !await.Eventually(10*time.Second, func() bool {
		return len(s.server.Strings("PUBSUB", "CHANNELS", "holdfast:client:*")) > 0
	}) {
		s.Fatal("nobody listens")
	}
	return func() { _ = long.Unlock() }
}

func mustAcquire(t testing.TB, sem *holdfast.Semaphore) *holdfast.Lock {
	t.Helper()
	lock, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return lock
}

// wantForced checks that err says that somebody ended the hold, and why.
func wantForced(t testing.TB, what string, err error, why string) {
	t.Helper()
	var lost *driver.GoneError
	if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &lost) || lost.Reason != driver.ReasonForced || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: got %v, want it forced because of %s", what, err, why)
	}
}

// The holders of permits are known by name, as those of other locks are. A permit
// that is broken by what was shown of it is the only one to end: its holder hears
// of it at once, and why, and a waiter has it.
func TestBreakPermit(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const limit = 500 * time.Millisecond // the next look by itself comes later
		holder := s.other(&holdfast.Options{TTL: 30 * time.Second, Note: "nightly"})
		ops, next, c := s.other(&holdfast.Options{Note: "ops"}), s.other(&holdfast.Options{Note: "next"}), s.console(nil)
		defer s.listens(holder)()
		first, kept := mustAcquire(s, holder.Semaphore("pool", 3)), mustAcquire(s, holder.Semaphore("pool", 3))
		java := "012345\x4a7\x8b9abcdef" // as random as any; that it looks like Holdfast's happens
		s.server.Int("ZADD", "{pool}:timeout", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10), java)
		s.server.Int("DECR", "pool")
		defer s.server.Do("FLUSHALL") // a semaphore has no TTL

		var busy *holdfast.BusyError
		if _, err := ops.Semaphore("pool", 3).TryAcquire(s.Context()); !errors.As(err, &busy) || busy.Holder != "nightly" {
			s.Errorf("TryAcquire: got %v, want it held by nightly", err)
		}
		record := lookAt(s, c, "pool")
		if record.Holders != 3 || len(record.Holds) != 3 {
			s.Fatalf("got %+v, want three holders", record)
		}
		for i, h := range record.Holds {
			named := h.Note == "nightly" && h.Client.Library == "holdfast" && h.Client.PID != 0 && strings.HasPrefix(h.Owner, h.Client.ID+":")
			if java := i == 2; java && (h.Note != "a permit" || h.Client != admin.Client{}) || !java && !named {
				s.Errorf("got %+v", h)
			}
		}

		got := make(chan time.Time, 1)
		go func() {
			if k, err := next.Semaphore("pool", 3).Acquire(s.Context()); err == nil {
				at := time.Now()
				_ = k.Unlock()
				got <- at
			}
		}()
		if !await.Eventually(5*time.Second, func() bool { return lookAt(s, c, "pool").Listeners > 0 }) {
			s.Fatal("nobody waits")
		}
		begun := time.Now()
		if err := c.ForceUnlock(s.Context(), "pool", record.Holds[0].Holder, "INC-7"); err != nil {
			s.Fatal(err)
		}
		select {
		case <-first.Context(s.Context()).Done():
			within(s, "the holder hears", time.Since(begun), limit)
		case <-time.After(5 * time.Second):
			s.Fatal("the holder has heard nothing")
		}
		within(s, "the next", (<-got).Sub(begun), limit)
		wantForced(s, "the holder", first.Err(), "INC-7")
		if err := kept.Err(); err != nil {
			s.Errorf("the other permit: got %v, want it held", err)
		}
		if err := c.ForceUnlock(s.Context(), "pool", record.Holds[0].Holder, "again"); !errors.Is(err, driver.ErrGone) {
			s.Errorf("ForceUnlock again: got %v, want it gone", err)
		}
		if err := c.ForceUnlock(s.Context(), "pool", record.Holds[2].Holder, "Java's"); err != nil {
			s.Errorf("ForceUnlock of Java's: %v", err)
		}
		if r := lookAt(s, c, "pool"); r.Holders != 1 || r.Free != 2 || r.Holds[0].Owner != record.Holds[1].Owner {
			s.Errorf("got %+v, want one permit left, the one that nobody broke", r)
		}
		must.Unlock(s, kept)
	})
}

// A holder that does not listen learns the reason when it unlocks.
func TestBreakPermitUnheard(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		holder, c := s.other(&holdfast.Options{TTL: 30 * time.Second}), s.console(nil)
		lock := mustAcquire(s, holder.Semaphore("pool", 1))
		defer s.server.Do("FLUSHALL") // a semaphore has no TTL
		if err := c.ForceUnlock(s.Context(), "pool", lookAt(s, c, "pool").Holds[0].Holder, "INC-8"); err != nil {
			s.Fatal(err)
		}
		wantForced(s, "Unlock", lock.Unlock(), "INC-8")
		if got := s.server.String("GET", "pool"); got != "1" {
			s.Errorf("free: got %s, want 1: it is released once", got)
		}
	})
}
