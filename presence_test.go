package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

const heartbeat = 2 * time.Second

// noting is a store that gets reports of what is held and waited for.
type noting struct {
	*memhold.Backend
	fail func(context.Context) error

	mu  sync.Mutex
	all []driver.Report
	at  []time.Time
}

func newNoting() *noting { return &noting{Backend: memhold.New()} }

func (n *noting) Report(ctx context.Context, r driver.Report) error {
	n.mu.Lock()
	n.all, n.at = append(n.all, r), append(n.at, time.Now())
	n.mu.Unlock()
	if n.fail != nil {
		return n.fail(ctx)
	}
	return nil
}

func (n *noting) reports() []driver.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// last returns the last report, and how many there were.
func (n *noting) last() (driver.Report, int) {
	got := n.reports()
	if len(got) == 0 {
		return driver.Report{}, 0
	}
	return got[len(got)-1], len(got)
}

// Locks that are held, and waited for, for less than a heartbeat are reported to
// nobody, however many there are.
func TestShortLocksAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newNoting()
		l := holdfast.New(store, nil)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for i := range 60 {
					lock := must.Lock(t, l, fmt.Sprint("job:", i%7))
					time.Sleep(300 * time.Millisecond)
					must.Unlock(t, lock)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		if got, n := store.last(); n != 0 {
			t.Errorf("%d reports, the last %+v, want none", n, got)
		}
	})
}

// Somebody who looks a second after a grant sees for how long the lock has been held.
func TestHoldIsReportedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newNoting()
		l := holdfast.New(store, nil)
		for range 3 {
			_, before := store.last()
			lock := must.Lock(t, l, "job")
			time.Sleep(time.Second)
			r, n := store.last()
			if n != before+1 || len(r.Holds) != 1 || r.Holds[0].Token != lock.Token() {
				t.Fatalf("%d reports, the last %+v, want one of the hold", n-before, r)
			}
			must.Unlock(t, lock)
			time.Sleep(time.Minute)
		}
	})
}

// What is held for longer is notified once in each heartbeat, all with one call, and
// once more when there is nothing left.
func TestLongLocksAreReportedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newNoting()
		l := holdfast.New(store, &holdfast.Options{Note: "ci"})
		var locks holdfast.Locks
		for i := range 5 {
			locks = append(locks, must.Lock(t, l, fmt.Sprint("job:", i)))
		}
		read, err := l.RWMutex("book").Read.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, read)
		time.Sleep(time.Minute)
		got := store.reports()
		if n := len(got); n < 28 || n > 30 {
			t.Errorf("%d reports in a minute, want one in each of 30 heartbeats, from the first or second", n)
		}
		r := got[len(got)-1]
		if r.Client == "" || r.Note != "ci" || r.TTL != 30*time.Second || len(r.Holds) != 6 || r.MoreHolds != 0 || len(r.Waits) != 0 {
			t.Fatalf("got %+v, want the six holds of ci", r)
		}
		for _, h := range r.Holds {
			want := driver.ReportedHold{Name: h.Name, Owner: h.Owner, HeldFor: h.HeldFor}
			if h.Name == "book" {
				want.ReadWrite, want.Mode = true, driver.Shared
			}
			for _, k := range locks {
				if k.Name() == h.Name {
					want.Token = k.Token()
				}
			}
			if h != want || !strings.HasPrefix(h.Owner, r.Client+":") || want.Token == 0 {
				t.Errorf("got %+v, want %+v", h, want)
			}
			between(t, "held", h.HeldFor, time.Minute-heartbeat, time.Minute)
		}
		must.UnlockAll(t, locks)
		time.Sleep(time.Hour)
		end, n := store.last()
		if len(end.Holds) != 0 || n != len(got)+1 {
			t.Errorf("%d reports after the end, the last %+v, want one, of nothing", n-len(got), end)
		}
	})
}

// Of very much only the oldest is notified.
func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newNoting()
		l := holdfast.New(store, nil)
		other := holdfast.New(store, nil)
		time.Sleep(100 * time.Millisecond) // so that no renewal is due when a report is made: it may miss one that moves
		var all holdfast.Locks
		hold := func(l *holdfast.Locker, name string) {
			all = append(all, must.Lock(t, l, name))
			time.Sleep(time.Microsecond)
		}
		for i := range 700 {
			hold(l, fmt.Sprint("job:", i))
		}
		for i := range 40 {
			hold(other, fmt.Sprint("busy:", i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if _, err := l.Lock(ctx, fmt.Sprint("busy:", i)); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		for range 10 { // what is short is not counted either
			short := must.Lock(t, l, "short")
			time.Sleep(time.Second)
			must.Unlock(t, short)
		}
		var mine driver.Report
		for _, r := range store.reports() {
			if strings.HasPrefix(r.Holds[0].Name, "job:") {
				mine = r
			}
		}
		if len(mine.Holds) != 64 || mine.MoreHolds != 700-64 || len(mine.Waits) != 32 || mine.MoreWaits != 8 {
			t.Fatalf("got %d holds and %d more, %d waits and %d more", len(mine.Holds), mine.MoreHolds, len(mine.Waits), mine.MoreWaits)
		}
		for i, h := range mine.Holds {
			if want := fmt.Sprint("job:", i); h.Name != want {
				t.Fatalf("hold %d is %s, want the oldest ones first", i, h.Name)
			}
		}
		cancel()
		wg.Wait()
		must.UnlockAll(t, all)
	})
}

// A lock that was passed on inside of the process is that of its present holder.
func TestReportAfterAHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newNoting()
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{For: time.Hour}})
		kick := must.Lock(t, l, "job") // its queue makes the next grant one that is passed on
		next := make(chan *holdfast.Lock)
		for range 2 {
			go func() { next <- must.Lock(t, l, "job") }()
			synctest.Wait()
		}
		must.Unlock(t, kick)
		first := <-next
		time.Sleep(10 * time.Second)
		before, _ := store.last()
		must.Unlock(t, first)
		second := <-next
		time.Sleep(heartbeat)
		if r, _ := store.last(); len(r.Holds) > 0 && (r.Holds[0].HeldFor > heartbeat || r.Holds[0].Token != second.Token()) {
			t.Errorf("got %+v, want nothing of the holder before", r)
		}
		time.Sleep(8 * time.Second)
		after, _ := store.last()
		if len(before.Holds) != 1 || len(after.Holds) != 1 {
			t.Fatalf("got %+v, then %+v, want a hold each", before, after)
		}
		a, b := before.Holds[0], after.Holds[0]
		if a.Owner != b.Owner || a.Token != first.Token() || b.Token != second.Token() || a.Token == b.Token {
			t.Errorf("got %+v, then %+v, want one owner with tokens %d and %d", a, b, first.Token(), second.Token())
		}
		between(t, "held by the second", b.HeldFor, 6*time.Second, 10*time.Second)
		must.Unlock(t, second)
	})
}

// Goroutines that wait are notified as one wait for the name, with how many they are;
// behind a holder elsewhere as behind one of this process.
func TestWaitsAreReported(t *testing.T) {
	for _, elsewhere := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newNoting()
			l := holdfast.New(store, nil)
			holder := l
			if elsewhere {
				holder = holdfast.New(store.Backend, nil) // without reports
			}
			lock := must.Lock(t, holder, "job")
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { must.Unlock(t, must.Lock(t, l, "job")) })
			}
			time.Sleep(10 * time.Second)
			r, _ := store.last()
			if len(r.Waits) != 1 || r.Waits[0].Name != "job" || r.Waits[0].Count != 3 || r.Waits[0].ReadWrite {
				t.Fatalf("elsewhere %v: got %+v, want three who wait for the job", elsewhere, r)
			}
			between(t, "waited", r.Waits[0].Waited, 5*time.Second, 10*time.Second)
			must.Unlock(t, lock)
			wg.Wait()
			time.Sleep(10 * time.Second)
			if r, _ := store.last(); len(r.Waits)+len(r.Holds) != 0 {
				t.Errorf("got %+v after the end", r)
			}
		})
	}
}

// The wait of the caller at the head goes on from that in the queue.
func TestWaitGoesOnAtTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newNoting()
		l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
		lock := must.Lock(t, other, "job")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = l.Lock(ctx, "job") })
		synctest.Wait()
		wg.Go(func() { must.Unlock(t, must.Lock(t, l, "job")) })
		time.Sleep(20 * time.Second)
		cancel()
		time.Sleep(5 * time.Second)
		r, _ := store.last()
		if len(r.Waits) != 1 || r.Waits[0].Count != 1 {
			t.Fatalf("got %+v, want one who waits", r)
		}
		between(t, "waited", r.Waits[0].Waited, 15*time.Second, 25*time.Second)
		must.Unlock(t, lock)
		wg.Wait()
	})
}

// A store that fails, hangs or panics when it gets a report costs the locks nothing.
func TestReportsThatFail(t *testing.T) {
	for what, fail := range map[string]func(context.Context) error{
		"fails": func(context.Context) error { return errors.New("no rights") }, "hangs": faulty.Hang,
		"panics": func(context.Context) error { panic("no") },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newNoting()
			store.fail = fail
			l := holdfast.New(store, nil)
			lock := must.Lock(t, l, "job")
			time.Sleep(time.Minute)
			if _, n := store.last(); n < 15 {
				t.Errorf("%s: %d reports in a minute, want it to go on", what, n)
			}
			must.Unlock(t, lock)
			time.Sleep(heartbeat + time.Second) // what hangs is given up after a second
		})
	}
}

// Who is refused learns for how long the lock has been held.
func TestBusyErrorTellsHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), &holdfast.Options{Note: "ci-7"})
		lock := must.Lock(t, l, "deploy")
		time.Sleep(3*time.Minute + 12*time.Second)
		_, err := l.TryLock(t.Context(), "deploy")
		var busy *holdfast.BusyError
		if !errors.As(err, &busy) || busy.HeldFor != 3*time.Minute+12*time.Second {
			t.Fatalf("got %v, want a BusyError", err)
		}
		if want := `lock "deploy" is held by ci-7 (a goroutine of this Locker) for 3m12s, lease ends in `; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %q, want %q…", err, want)
		}
		must.Unlock(t, lock)
	})
}

// notifying is a store that sends notices to the client that listens.
type notifying struct {
	*memhold.Backend
	seqs      chan uint64
	calls     atomic.Int64
	listening atomic.Int64
	err       error // the refusal to listen
}

func (b *notifying) Notify(ctx context.Context, _ string, hint func(uint64)) error {
	b.calls.Add(1)
	b.listening.Add(1)
	defer b.listening.Add(-1)
	if b.err != nil {
		return b.err
	}
	for {
		select {
		case seq := <-b.seqs:
			hint(seq)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A notice makes the Locker renew at once. It proves nothing by itself.
func TestForcedUnlockIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notifying{Backend: memhold.New(), seqs: make(chan uint64)}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Hour})
		k := must.Lock(t, l, "a")
		time.Sleep(30 * time.Minute)
		h := holders(t, store, "a")[0]
		store.seqs <- 1
		store.seqs <- 57
		time.Sleep(time.Second)
		if err := k.Err(); err != nil {
			t.Errorf("after a false notice: got %v, want it held", err)
		}
		if err := store.ForceUnlock(t.Context(), "a", h, "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := k.Err(); err != nil {
			t.Errorf("before the notice: got %v, want nothing known yet", err)
		}
		store.seqs <- 1
		time.Sleep(time.Second)
		var lost *holdfast.LostError
		if err := k.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced {
			t.Errorf("after the notice: got %v, want it forced", err)
		}
		synctest.Wait()
		if n := store.listening.Load(); n != 0 {
			t.Errorf("%d still listen after the last lock was lost", n)
		}
	})
}

// When a client's session may have ended, all its holds may have. All of them are renewed
// at once, also those that would not be renewed otherwise.
func TestEndOfASessionIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notifying{Backend: memhold.New(), seqs: make(chan uint64)}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Hour})
		locks := map[string]*holdfast.Lock{"kept": must.Lock(t, l, "kept"), "fixed": must.Lock(t, l, "fixed", holdfast.FixedLease(2*time.Hour))}
		for i := range 20 {
			name := fmt.Sprint("lost ", i)
			locks[name] = must.Lock(t, l, name)
		}
		time.Sleep(30 * time.Minute)
		for name := range locks {
			if name != "kept" {
				store.Drop(name)
			}
		}
		store.seqs <- 0
		time.Sleep(time.Second)
		for name, k := range locks {
			var lost *holdfast.LostError
			if err := k.Err(); errors.As(err, &lost) == (name == "kept") {
				t.Errorf("%s: got %v a second after the notice", name, err)
			}
		}
		must.Unlock(t, locks["kept"])
	})
}

// A Locker does not listen for locks that are held for less than a heartbeat. For others it
// listens once, until the last one is released.
func TestShortLocksDoNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &notifying{Backend: memhold.New(), seqs: make(chan uint64)}
		l := holdfast.New(store, &holdfast.Options{TTL: 3 * time.Second})
		for range 20 {
			k := must.Lock(t, l, "short")
			time.Sleep(heartbeat / 2)
			must.Unlock(t, k)
		}
		if n := store.calls.Load(); n != 0 {
			t.Errorf("%d calls for short locks, want none", n)
		}
		for round := range int64(2) {
			k, second := must.Lock(t, l, "long"), must.Lock(t, l, "other")
			time.Sleep(time.Minute)
			if calls, n := store.calls.Load(), store.listening.Load(); calls != round+1 || n != 1 {
				t.Errorf("%d calls, %d listen; want %d and 1", calls, n, round+1)
			}
			must.Unlock(t, second)
			synctest.Wait()
			if n := store.listening.Load(); n != 1 {
				t.Errorf("%d listen while a lock is held, want 1", n)
			}
			must.Unlock(t, k)
			if err := l.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := store.listening.Load(); n != 0 {
				t.Errorf("%d listen after Drain, want none", n)
			}
		}
	})
}

// If a store refuses to listen, there is one debug line, and no second attempt. After
// another failure there is.
func TestNoticesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		most int64
	}{
		{driver.ErrRefused, 1},
		{errors.ErrUnsupported, 1},
		{errors.New("cut off"), 40},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			store := &notifying{Backend: memhold.New(), err: c.err}
			l := holdfast.New(store, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			k := must.Lock(t, l, "a")
			time.Sleep(time.Minute)
			must.Unlock(t, k)
			time.Sleep(time.Minute)
			if n := store.calls.Load(); n > c.most || c.most > 1 && n < 20 {
				t.Errorf("%v: %d calls, want about %d", c.err, n, c.most)
			}
			if n := strings.Count(log.String(), "this client notices a forced unlock"); n != 1 {
				t.Errorf("%v: %d lines, want one", c.err, n)
			}
		})
	}
}

// claims records what is written about a client.
type claims struct {
	*memhold.Backend
	seen    []driver.Claim
	reports int
}

func (c *claims) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	c.seen = append(c.seen, claim)
	return c.Backend.Try(ctx, claim)
}

func (c *claims) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	c.seen = append(c.seen, cs...)
	return c.Backend.Renew(ctx, cs)
}

func (c *claims) Report(context.Context, driver.Report) error {
	c.reports++
	return nil
}

func TestAnonymous(t *testing.T) {
	for _, note := range []string{"", "batch job"} {
		synctest.Test(t, func(t *testing.T) {
			store := &claims{Backend: memhold.New()}
			l := holdfast.New(store, &holdfast.Options{Anonymous: true, Note: note})
			k := must.Lock(t, l, "a")
			time.Sleep(time.Minute)
			must.Unlock(t, k)
			if store.reports != 0 {
				t.Errorf("%d reports of presence, want none", store.reports)
			}
			if len(store.seen) < 3 {
				t.Fatalf("%d claims, want a try and renewals", len(store.seen))
			}
			for _, c := range store.seen {
				if !c.Anonymous || c.Note != note {
					t.Errorf("got a claim with Anonymous %v and note %q, want note %q", c.Anonymous, c.Note, note)
				}
			}
		})
	}
}
