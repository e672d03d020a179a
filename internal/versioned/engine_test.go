package versioned_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

const ttl = 10 * time.Second

// claims numbers the claims of a test.
type claims struct{ last uint64 }

func (s *claims) next(name string) driver.Claim {
	s.last++
	return driver.Claim{
		Name: name, Owner: fmt.Sprint("client:", s.last), Client: "client", Seq: s.last, Note: fmt.Sprint("holder ", s.last),
		TTL: ttl, Count: 1, Tokens: 1,
	}
}

func (s *claims) reader(name string) driver.Claim {
	c := s.next(name)
	c.Mode, c.ReadWrite = driver.Shared, true
	return c
}

// try makes one attempt, and fails the test if that has not the wanted result.
func try(t *testing.T, e *versioned.Engine, c driver.Claim, granted bool) driver.Outcome {
	t.Helper()
	out, err := e.Try(t.Context(), c)
	if err != nil || out.Granted != granted {
		t.Fatalf("Try of %s: got %+v and error %v, want granted %v", c.Owner, out, err, granted)
	}
	return out
}

func release(t *testing.T, e *versioned.Engine, c driver.Claim) {
	t.Helper()
	if err := e.Release(t.Context(), c); err != nil {
		t.Fatalf("Release of %s: %v", c.Owner, err)
	}
}

func open(m versioned.Store, noClock bool) *versioned.Engine {
	return versioned.New(m, versioned.Limits{Name: "documents", NoClock: noClock})
}

// A write that the store executes after a Release with Indeterminate takes no effect, although the
// Release has found nothing of the claim.
func TestLateWriteAfterIndeterminateRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		e := open(m, false)
		before, late := own.next("job"), own.next("job")
		try(t, e, before, true)
		release(t, e, before)

		held, goOn := make(chan bool), make(chan bool)
		m.delay = func() {
			m.delay = nil
			held <- true
			<-goOn
		}
		ctx, giveUp := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, err := e.Try(ctx, late)
			result <- err
		}()
		<-held
		giveUp()
		late.Indeterminate = true
		if err := e.Release(t.Context(), late); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Release: got %v, want ErrGone", err)
		}
		close(goOn)
		if err := <-result; err == nil {
			t.Error("the late Try was granted")
		}
		try(t, e, own.next("job"), true)
		if _, err := e.Try(t.Context(), late); err == nil {
			t.Error("a Try after the release of the claim has no error")
		}
	})
}

// A process that looks only once, each minute another one, takes the name of a holder that died.
func TestDeadHolderIsReplacedByProcessesThatLookOnce(t *testing.T) {
	for name, noClock := range map[string]bool{"clock": false, "no clock": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, own := newMemory(!noClock), claims{}
				try(t, open(m, noClock), own.next("nightly"), true)
				died, tolerance := time.Now(), time.Duration(0)
				if noClock {
					tolerance = versioned.DefaultTolerance
				}
				for {
					time.Sleep(time.Second)
					c := own.next("nightly")
					c.NoQueue = true
					out, err := open(m, noClock).Try(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					after := time.Since(died)
					if out.Granted && after < ttl {
						t.Fatalf("granted after %v, while the lease ran", after)
					}
					if out.Granted {
						break
					}
					if after > ttl+tolerance+time.Second {
						t.Fatalf("not granted after %v", after)
					}
				}
			})
		})
	}
}

// Without a clock in the store, clocks of processes may differ by the tolerance. If they differ by
// more, a new process may take the name too early: docs/guarantees.md says so.
func TestClocksThatDiffer(t *testing.T) {
	for ahead, early := range map[time.Duration]bool{
		versioned.DefaultTolerance:               false,
		-versioned.DefaultTolerance:              false,
		versioned.DefaultTolerance + time.Minute: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, own := newMemory(false), claims{}
			try(t, open(m, true), own.next("job"), true)
			time.Sleep(ttl - 1)
			e := open(m, true)
			e.SetWall(func(at time.Time) time.Time { return at.Add(ahead) })
			try(t, e, own.next("job"), early)
		})
	}
}

// The end of a lease does not move because others write the document.
func TestForeignWritesDoNotProlongALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(false), claims{}
		dead := own.reader("doc")
		dead.TTL = time.Minute
		try(t, open(m, true), dead, true)
		a, b := open(m, true), open(m, true)
		writer := own.next("doc")
		writer.ReadWrite, writer.NoQueue = true, true
		try(t, a, writer, false)
		for range 59 { // others come and go, and write each time
			time.Sleep(time.Second)
			c := own.reader("doc")
			try(t, b, c, true)
			release(t, b, c)
		}
		time.Sleep(time.Second + time.Millisecond)
		try(t, a, writer, true)
	})
}

// A holder that did not see the answer to its renewal counts from its next one, and so do others.
func TestRenewalWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(false), claims{}
		e, other := open(m, true), open(m, true)
		c, next := own.next("job"), own.next("job")
		next.NoQueue = true
		try(t, e, c, true)
		time.Sleep(time.Second)
		try(t, other, next, false)

		m.lose = true // the answer of the next write
		if r, err := e.Renew(t.Context(), []driver.Claim{c}); err == nil && r[0].Err == nil {
			t.Fatal("a renewal without an answer has no error")
		}
		try(t, other, next, false)
		time.Sleep(ttl - time.Second)
		r, err := e.Renew(t.Context(), []driver.Claim{c})
		if err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
		time.Sleep(r[0].ValidFor - 1)
		try(t, other, next, false)
	})
}

// A store that has lost writes, or a document, ends holds with that reason, and tokens still rise.
func TestStoreThatGoesBack(t *testing.T) {
	for name, tt := range map[string]struct {
		lose func(m *memory, before kept)
		want string
	}{
		"restored": {func(m *memory, before kept) { m.items["job"] = before }, "the store has an earlier state"},
		"deleted":  {func(m *memory, _ kept) { delete(m.items, "job") }, "was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, own := newMemory(true), claims{}
				e := open(m, false)
				first, c := own.next("job"), own.next("job")
				try(t, e, first, true)
				release(t, e, first)
				before := m.items["job"]
				c.Tokens = 64
				token := try(t, e, c, true).Token
				time.Sleep(time.Second)
				tt.lose(m, before)
				r, err := e.Renew(t.Context(), []driver.Claim{c})
				var gone *driver.GoneError
				if err != nil || !errors.As(r[0].Err, &gone) || gone.Reason != driver.ReasonDeleted || !strings.Contains(gone.Detail, tt.want) {
					t.Errorf("Renew: got %+v and error %v, want a loss with %q", r, err, tt.want)
				}
				if next := try(t, open(m, false), own.next("job"), true).Token; next < token+64 {
					t.Errorf("got token %d of a new process, after tokens up to %d", next, token+63)
				}
			})
		})
	}
}

// The same version with other content is noticed: another writer has it after a restore.
func TestVersionThatRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		e := open(m, false)
		c, other := own.next("job"), own.next("job")
		try(t, e, c, true)
		mine := m.items["job"]
		delete(m.items, "job")
		m.last--
		try(t, open(m, false), other, true)
		if m.items["job"].version != mine.version {
			t.Fatalf("got version %s, want %s once more", m.items["job"].version, mine.version)
		}
		c.Fixed = true // so the renewal reads
		if r, err := e.Renew(t.Context(), []driver.Claim{c}); err != nil || !errors.Is(r[0].Err, driver.ErrGone) {
			t.Errorf("Renew: got %+v and error %v, want a loss", r, err)
		}
	})
}

// A document of something else, and one of a later version of Holdfast, are refused and kept.
func TestForeignDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for data, want := range map[string]error{
			"hello":                          driver.ErrMismatch,
			`{"holder":"x"}`:                 driver.ErrMismatch,
			`{"format":2,"kind":"new kind"}`: driver.ErrRefused,
		} {
			m, own := newMemory(true), claims{}
			m.set("job", []byte(data))
			_, err := open(m, false).Try(t.Context(), own.next("job"))
			if !errors.Is(err, want) {
				t.Errorf("%s: got error %v, want %v", data, err, want)
			}
			if got := string(m.items["job"].data); got != data {
				t.Errorf("%s became %s", data, got)
			}
		}
	})
}

// A document has a limit, and a claim that does not fit is refused. Holders go on.
func TestDocumentIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		e := open(m, false)
		var held []driver.Claim
		for len(held) < 2000 {
			c := own.reader("doc")
			out, err := e.Try(t.Context(), c)
			if errors.Is(err, driver.ErrUnable) && errors.Is(err, driver.ErrNotExecuted) {
				break
			}
			if err != nil || !out.Granted {
				t.Fatalf("reader %d: got %+v and error %v", len(held), out, err)
			}
			held = append(held, c)
		}
		if len(held) < 500 || len(held) > 1000 {
			t.Errorf("%d readers got the lock, want about a thousand", len(held))
		}
		if size := len(m.items["doc"].data); size > versioned.DefaultMaxSize {
			t.Errorf("the document has %d bytes, want at most %d", size, versioned.DefaultMaxSize)
		}
		renewals, err := e.Renew(t.Context(), held)
		for i, r := range renewals {
			if r.Err != nil {
				t.Fatalf("renewal %d: %v", i, r.Err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Calls for one name go together, and calls for several names too, if the store can that.
func TestCallsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		m.delay = func() { time.Sleep(time.Millisecond) }
		e := versioned.New(batched{m}, versioned.Limits{Name: "documents"})
		var all sync.WaitGroup
		for range 500 {
			c := own.next("pool")
			c.Mode, c.Permits = driver.Permit, 1000
			all.Go(func() { try(t, e, c, true) })
		}
		all.Wait()
		if m.puts > 10 {
			t.Errorf("500 claims of one name cost %d writes", m.puts)
		}

		var many []driver.Claim
		for i := range 1000 {
			many = append(many, own.next(fmt.Sprint("name ", i)))
		}
		for i, a := range e.TryAll(t.Context(), many) {
			if a.Err != nil || !a.Outcome.Granted {
				t.Fatalf("claim %d: got %+v", i, a)
			}
		}
		calls := m.called()
		if renewals, err := e.Renew(t.Context(), many); err != nil || renewals[999].Err != nil {
			t.Fatal(renewals[999], err)
		}
		if calls = m.called() - calls; calls > 100 {
			t.Errorf("1000 renewals cost %d calls", calls)
		}
	})
}

// A document can be read by people, and has nothing but JSON.
func TestDocumentIsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		c := own.next("job")
		c.Note = "not \xff text"
		try(t, open(m, false), c, true)
		var doc struct {
			Format int
			Grants []struct{ Owner, Note string }
		}
		if err := json.Unmarshal(m.items["job"].data, &doc); err != nil || doc.Format != 1 || doc.Grants[0].Owner != c.Owner || doc.Grants[0].Note != "not � text" {
			t.Errorf("got %s (%v)", m.items["job"].data, err)
		}
		out := try(t, open(m, false), own.next("job"), false)
		if out.Holder != "not � text" || out.RetryAfter <= 0 || out.RetryAfter > ttl+time.Millisecond {
			t.Errorf("got %+v, want the holder and the end of its lease", out)
		}
	})
}

// Drain ends the watch that lingers after the last waiter.
func TestDrainEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		e := open(watched{m}, false)
		holder, waiter := own.next("job"), own.next("job")
		try(t, e, holder, true)
		w := e.Waiter(waiter)
		out := try(t, e, waiter, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Wait(ctx, out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: got %v", err)
		}
		w.Close()
		began := time.Now()
		if err := e.Drain(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("Drain: got %v after %v", err, time.Since(began))
		}
	})
}

// answersLate is a Store whose writes are reported before they are answered.
type answersLate struct {
	watched
	after time.Duration
}

func (s answersLate) Put(ctx context.Context, w versioned.Write) (versioned.Version, error) {
	v, err := s.watched.Put(ctx, w)
	time.Sleep(s.after)
	return v, err
}

// A release that the watch reports while a refused Try has no answer yet ends the wait after it.
func TestReportDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, own := newMemory(true), claims{}
		holder, e := open(watched{m}, false), open(answersLate{watched{m}, 20 * time.Millisecond}, false)
		other, job := own.next("other"), own.next("job")
		try(t, holder, other, true)
		try(t, holder, job, true)

		ctx, cancel := context.WithCancel(t.Context())
		first := own.next("other")
		out := try(t, e, first, false)
		var all sync.WaitGroup
		all.Go(func() { // keeps the watch alive
			w := e.Waiter(first)
			defer w.Close()
			_, _ = w.Wait(ctx, out)
		})
		time.Sleep(time.Second)

		all.Go(func() {
			time.Sleep(10 * time.Millisecond)
			release(t, holder, job)
		})
		second := own.next("job")
		out = try(t, e, second, false)
		w := e.Waiter(second)
		began := time.Now()
		if _, err := w.Wait(t.Context(), out); err != nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("Wait: got error %v after %v", err, time.Since(began))
		}
		w.Close()
		try(t, e, second, true)
		cancel()
		all.Wait()
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
