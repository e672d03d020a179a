package promhold_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/promhold"
)

// TestExposition compares the whole text that Prometheus reads.
func TestExposition(t *testing.T) {
	m := promhold.New(&promhold.Options{Group: promhold.GroupByPrefix, Elections: []string{"leader", "spare"}})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	lost := &holdfast.LostError{Name: "stock:2", Reason: driver.ReasonForced}
	for _, step := range []struct {
		ctx context.Context
		e   holdfast.Event
	}{
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Waited: 3 * time.Millisecond}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:2", Kind: "mutex", Waited: 40 * time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "leader", Kind: "fair", Waited: time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: &holdfast.BusyError{Name: "stock:1"}}},
		{over, holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: fmt.Errorf("lock: %w", context.Canceled)}},
		{late, holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: fmt.Errorf("lock: %w", context.DeadlineExceeded)}},
		// The store's own timeout is not the caller's.
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: fmt.Errorf("lock: %w", context.DeadlineExceeded)}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRenew, Name: "stock:2", Kind: "mutex", Margin: 17 * time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRenew, Name: "stock:2", Kind: "mutex", Margin: 4 * time.Second, Err: errors.New("i/o timeout")}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRenew, Name: "stock:2", Kind: "mutex", Margin: 3 * time.Second, Err: &driver.GoneError{Reason: driver.ReasonNotOwner}}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "stock:1", Kind: "mutex", HeldFor: 2 * time.Second}},
		// An Unlock that finds that the lock is gone is one loss, and no release.
		{t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "stock:2", Kind: "mutex", HeldFor: 20 * time.Second, Err: fmt.Errorf("unlock: %w", lost)}},
		{t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "stock:2", Kind: "mutex", HeldFor: 20 * time.Second, Reason: driver.ReasonForced, Err: lost}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "other store", Kind: "write"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "other store", Kind: "write", HeldFor: time.Hour, Reason: "a reason of its own"}},
		{t.Context(), holdfast.Event{Type: "of a later version", Name: "stock:1", Kind: "mutex"}},
		// Three begin to wait; one of them still does.
		{t.Context(), holdfast.Event{Type: holdfast.EventWait, Name: "stock:7", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWait, Name: "stock:8", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWait, Name: "jobs:1", Kind: "fair"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWake, Name: "stock:7", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWake, Name: "stock:7", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWake, Name: "stock:7", Kind: "mutex", Notified: true}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:7", Kind: "mutex", Blocked: true, Waited: 2 * time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "jobs:1", Kind: "fair", Blocked: true, Waited: 2 * time.Second, Err: &holdfast.BusyError{Name: "jobs:1"}}},
		// A lock with the option FixedLease that reaches its end is not lost, because its user
		// wanted that. One that was forced before is.
		{t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "stock:7", Kind: "mutex", HeldFor: 9 * time.Second, Reason: driver.ReasonExpired, Leased: true, Err: holdfast.ErrLost}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:9", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "stock:9", Kind: "mutex", HeldFor: 9 * time.Second, Reason: driver.ReasonDeleted, Leased: true, Err: holdfast.ErrLost}},
		{t.Context(), holdfast.Event{Type: holdfast.EventCall, Name: "stock:1", Kind: "mutex", Op: holdfast.OpTry, Took: 300 * time.Microsecond}},
		{t.Context(), holdfast.Event{Type: holdfast.EventCall, Name: "stock:1", Kind: "mutex", Op: holdfast.OpTry, Took: 3 * time.Second, Err: errors.New("i/o timeout")}},
		{t.Context(), holdfast.Event{Type: holdfast.EventCall, Name: "stock:1", Kind: "mutex", Op: holdfast.OpRenew, Took: time.Millisecond}},
		// That there is nothing to release is an answer.
		{t.Context(), holdfast.Event{Type: holdfast.EventCall, Name: "stock:1", Kind: "mutex", Op: holdfast.OpRelease, Took: 2 * time.Millisecond, Err: &driver.GoneError{Reason: driver.ReasonExpired}}},
		{t.Context(), holdfast.Event{Type: holdfast.EventCall, Name: "stock:1", Kind: "mutex", Op: "of a later version", Took: time.Minute}},
		{t.Context(), holdfast.Event{Type: holdfast.EventIndeterminate, Name: "stock:1", Kind: "mutex", Op: holdfast.OpTry, Resolved: true}},
		{t.Context(), holdfast.Event{Type: holdfast.EventIndeterminate, Name: "stock:1", Kind: "mutex", Op: holdfast.OpRelease}},
	} {
		step.e.Backend = "memory"
		m.Observe(step.ctx, step.e)
	}
	const file = "testdata/exposition.txt"
	want, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := testutil.CollectAndCompare(m, want, exported()...); err != nil {
		t.Errorf("%s differs:\n%v", file, err)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("got problems %v, error %v", problems, err)
	}
}

// exported has the names of all metrics except holdfast_build_info, whose label depends on
// how this test was built.
func exported() []string {
	return []string{
		"holdfast_acquire_duration_seconds", "holdfast_hold_duration_seconds", "holdfast_renew_margin_seconds",
		"holdfast_held", "holdfast_renewals_total", "holdfast_lost_total", "holdfast_leader", "holdfast_waiting",
		"holdfast_oldest_hold_seconds", "holdfast_wakeups_total", "holdfast_indeterminate_total", "holdfast_backend_operation_duration_seconds",
	}
}

func TestBuildInfo(t *testing.T) {
	got := gather(t, promhold.New(nil))["holdfast_build_info"]
	if len(got) != 1 || got[0].value != 1 || got[0].labels["version"] == "" || got[0].labels["version"] == "unknown" {
		t.Fatalf("got %+v, want one series of value 1 with a version", got)
	}
}

// TestLocks counts the events of a Locker, up to a lock whose record is deleted: the first
// time a renewal finds that, the second time Unlock does.
func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := promhold.New(&promhold.Options{Elections: []string{"leader"}})
		store := memhold.New()
		locker := holdfast.New(store, &holdfast.Options{Observe: m.Observe})
		first := must.Lock(t, locker, "leader")
		wantSeries(t, m, "holdfast_leader", 1, "election", "leader")
		wantSeries(t, m, "holdfast_held", 1, "kind", "mutex", "lock_group", "")
		if _, err := locker.TryLock(t.Context(), "leader"); !errors.Is(err, holdfast.ErrBusy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := locker.Lock(ctx, "leader"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want DeadlineExceeded", err)
		}
		time.Sleep(24 * time.Second) // a renewal every 10 s at the latest, when 17 s are left
		synctest.Wait()
		renewed := find(t, m, "holdfast_renewals_total", []string{"outcome", "ok"}).value
		if renewed < 2 {
			t.Errorf("got %v renewals, want at least 2", renewed)
		}
		wantBucket(t, m, "holdfast_renew_margin_seconds", 15, 0, "kind", "mutex")
		wantBucket(t, m, "holdfast_renew_margin_seconds", 30, uint64(renewed), "kind", "mutex")

		breakLock(t, store, "leader")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		wantSeries(t, m, "holdfast_lost_total", 1, "reason", "forced")
		wantSeries(t, m, "holdfast_renewals_total", 1, "outcome", "not_owner")
		wantSeries(t, m, "holdfast_leader", 0, "election", "leader")
		_ = first.Unlock() // it has ended already, so this changes nothing

		second := must.Lock(t, locker, "leader")
		breakLock(t, store, "leader")
		if err := second.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v, want ErrLost", err)
		}
		third := must.Lock(t, locker, "leader")
		if err := third.Unlock(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantSeries(t, m, "holdfast_held", 0, "kind", "mutex", "lock_group", "")
		wantSeries(t, m, "holdfast_leader", 0, "election", "leader")
		wantSeries(t, m, "holdfast_lost_total", 2, "reason", "forced")
		wantSeries(t, m, "holdfast_hold_duration_seconds", 2, "kind", "mutex", "end", "forced")
		wantSeries(t, m, "holdfast_hold_duration_seconds", 1, "kind", "mutex", "end", "released")
		for outcome, n := range map[string]float64{"acquired": 3, "busy": 1, "timeout": 1} {
			wantSeries(t, m, "holdfast_acquire_duration_seconds", n, "kind", "mutex", "backend", "memory", "outcome", outcome, "lock_group", "", "election", "leader")
		}
	})
}

// TestWaiting counts two goroutines that wait for a lock of another process, one for the
// store and one for the other, until one is unlocked and one gives up.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := promhold.New(nil)
		store := memhold.New()
		locker := holdfast.New(store, &holdfast.Options{Observe: m.Observe})
		elsewhere := must.Lock(t, holdfast.New(store, nil), "job")
		go lockOnce(t, locker, "job")
		synctest.Wait()
		gaveUp := make(chan error)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			_, err := locker.Lock(ctx, "job")
			gaveUp <- err
		}()
		synctest.Wait()
		wantSeries(t, m, "holdfast_waiting", 2, "kind", "mutex", "lock_group", "", "election", "")
		if err := <-gaveUp; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		wantSeries(t, m, "holdfast_waiting", 1, "kind", "mutex", "lock_group", "", "election", "")
		wantSeries(t, m, "holdfast_wakeups_total", 0, "source", "notify")
		if polls := find(t, m, "holdfast_wakeups_total", []string{"source", "poll"}).value; polls < 4 {
			t.Errorf("got %v wake-ups in 5 s of silence, want one a second", polls)
		}
		if err := elsewhere.Unlock(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantSeries(t, m, "holdfast_waiting", 0, "kind", "mutex", "lock_group", "", "election", "")
		wantSeries(t, m, "holdfast_wakeups_total", 1, "source", "notify")
		wantSeries(t, m, "holdfast_held", 0, "kind", "mutex", "lock_group", "")
	})
}

// TestLostReply counts the calls to a store, one of them without an answer, and the call
// that found out its result.
func TestLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := promhold.New(nil)
		store := faulty.New()
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			store.Change(func() { store.OnTry = nil })
			_, _ = store.Backend.Try(ctx, c)
			return driver.Outcome{}, errors.New("reply lost")
		}
		lockOnce(t, holdfast.New(store, &holdfast.Options{Observe: m.Observe}), "job")
		const calls, doubts = "holdfast_backend_operation_duration_seconds", "holdfast_indeterminate_total"
		wantSeries(t, m, calls, 1, "op", "try", "outcome", "error")
		wantSeries(t, m, calls, 1, "op", "try", "outcome", "ok")
		wantSeries(t, m, calls, 1, "op", "release", "outcome", "ok")
		wantSeries(t, m, calls, 0, "op", "renew", "outcome", "ok")
		wantSeries(t, m, doubts, 1, "op", "try", "resolved", "yes")
		wantSeries(t, m, doubts, 0, "op", "try", "resolved", "no")
	})
}

// TestFixedEnd lets a lock reach the end that its user gave it.
func TestFixedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := promhold.New(nil)
		locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: m.Observe})
		lock, err := locker.Lock(t.Context(), "job", holdfast.FixedLease(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantSeries(t, m, "holdfast_hold_duration_seconds", 1, "kind", "mutex", "end", "fixed_lease")
		wantSeries(t, m, "holdfast_lost_total", 0, "reason", "expired")
		wantSeries(t, m, "holdfast_held", 0, "kind", "mutex", "lock_group", "")
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		wantSeries(t, m, "holdfast_held", 0, "kind", "mutex", "lock_group", "")
	})
}

// TestDroppedLock drops a Lock, and waits until the gauge changes.
func TestDroppedLock(t *testing.T) {
	m := promhold.New(nil)
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: m.Observe})
	must.Lock(t, locker, "job")
	held := func() float64 { return find(t, m, "holdfast_held", []string{"kind", "mutex", "lock_group", ""}).value }
	for end := time.Now().Add(10 * time.Second); held() != 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("got %v locks held 10 s after they were dropped, want none", held())
		}
		runtime.GC()
	}
	if err := locker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSeries(t, m, "holdfast_hold_duration_seconds", 1, "kind", "mutex", "end", "released")
}

// TestNamesStayOutOfLabels locks many names, strange ones too, and requires that no label
// has one.
func TestNamesStayOutOfLabels(t *testing.T) {
	m := promhold.New(nil)
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: m.Observe})
	for i := range 300 {
		lockOnce(t, locker, fmt.Sprintf("secret\xff%d", i))
	}
	for name, series := range gather(t, m) {
		for _, s := range series {
			for label, value := range s.labels {
				if strings.Contains(value, "secret") {
					t.Errorf("%s has %s=%q", name, label, value)
				}
			}
		}
	}
	wantSeries(t, m, "holdfast_acquire_duration_seconds", 300, "kind", "mutex", "backend", "memory", "outcome", "acquired", "lock_group", "", "election", "")
}

// TestGroupsAreBounded gives each name a group of its own, which is the worst case.
func TestGroupsAreBounded(t *testing.T) {
	m := promhold.New(&promhold.Options{Group: func(name string) string { return name + strings.Repeat("\xff", 1000) }})
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: m.Observe})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				lockOnce(t, locker, fmt.Sprint("worker ", i, " lock ", j))
			}
		})
	}
	wg.Wait()
	held := gather(t, m)["holdfast_held"]
	if len(held) != 101 {
		t.Errorf("got %d values of lock_group, want 100 and %q", len(held), "other")
	}
	for _, s := range held {
		if s.value != 0 {
			t.Errorf("%v locks of group %q are held, want none", s.value, s.labels["lock_group"])
		}
		if len(s.labels["lock_group"]) > 500 {
			t.Errorf("a group of %d bytes", len(s.labels["lock_group"]))
		}
	}
	wantSeries(t, m, "holdfast_hold_duration_seconds", 800, "kind", "mutex", "end", "released")
}

// TestConcurrentUse is for the race detector: several Lockers and a scraper.
func TestConcurrentUse(t *testing.T) {
	m := promhold.New(&promhold.Options{Group: promhold.GroupByPrefix})
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	store := memhold.New()
	var wg sync.WaitGroup
	for range 4 {
		locker := holdfast.New(store, &holdfast.Options{Observe: m.Observe})
		for i := range 4 {
			wg.Go(func() {
				for range 50 {
					lockOnce(t, locker, fmt.Sprint("job:", i))
				}
			})
		}
	}
	wg.Go(func() {
		for range 20 {
			if _, err := registry.Gather(); err != nil {
				t.Errorf("gather: %v", err)
			}
		}
	})
	wg.Wait()
	wantSeries(t, m, "holdfast_acquire_duration_seconds", 800, "kind", "mutex", "backend", "memory", "outcome", "acquired", "lock_group", "job", "election", "")
	wantSeries(t, m, "holdfast_held", 0, "kind", "mutex", "lock_group", "job")
}

func TestPrefix(t *testing.T) {
	for name, want := range map[string]string{"stock:42": "stock", "order-7:x": "order-", "nightly": "nightly"} {
		if got := promhold.GroupByPrefix(name); got != want {
			t.Errorf("Prefix(%q): got %q, want %q", name, got, want)
		}
	}
}

// lockOnce may be called from any goroutine.
func lockOnce(t *testing.T, locker *holdfast.Locker, name string) {
	lock, err := locker.Lock(t.Context(), name)
	if err == nil {
		err = lock.Unlock()
	}
	if err != nil {
		t.Errorf("lock and unlock %q: %v", name, err)
	}
}

func breakLock(t *testing.T, store *memhold.Backend, name string) {
	t.Helper()
	records, err := store.Get(t.Context(), name)
	if err == nil && records[0].Holders == 1 {
		err = store.ForceUnlock(t.Context(), name, records[0].Holds[0].Holder, "test")
	}
	if err != nil || records[0].Holders != 1 {
		t.Fatalf("got %v, error %v, want one hold to end", records, err)
	}
}

// The oldest hold is that of the lock that has been held for longest. It may be passed on
// between goroutines, and its loss may be reported before its acquire. Elections are left
// out.
func TestOldestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := promhold.New(&promhold.Options{Elections: []string{"leader"}})
		observe := func(of holdfast.EventType, name, owner string) {
			m.Observe(t.Context(), holdfast.Event{Type: of, Name: name, Owner: owner, Kind: "mutex", Backend: "memory"})
		}
		want := func(seconds float64) {
			t.Helper()
			wantSeries(t, m, "holdfast_oldest_hold_seconds", seconds, "kind", "mutex", "lock_group", "")
		}
		observe(holdfast.EventAcquire, "leader", "c:0")
		observe(holdfast.EventAcquire, "job", "c:1")
		time.Sleep(time.Hour)
		observe(holdfast.EventAcquire, "other", "c:2")
		time.Sleep(time.Minute)
		want(3660)
		observe(holdfast.EventAcquire, "job", "c:1") // it was passed on, and the release is reported later
		observe(holdfast.EventRelease, "job", "c:1")
		time.Sleep(time.Second)
		want(61)
		observe(holdfast.EventRelease, "other", "c:2")
		want(1)
		observe(holdfast.EventLoss, "job", "c:1")
		want(0)
		observe(holdfast.EventLoss, "job", "c:3")
		observe(holdfast.EventAcquire, "job", "c:3")
		time.Sleep(time.Hour)
		want(0)
	})
}
