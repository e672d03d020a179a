package rows_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// slow is a table whose tries and releases take a second.
type slow struct {
	*table
	now, most, sent atomic.Int32 // calls under way, at most, and in all
}

func (s *slow) take() {
	s.sent.Add(1)
	n := s.now.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	s.now.Add(-1)
}

func (s *slow) Try(ctx context.Context, cs []driver.Claim) ([]rows.Row, error) {
	s.take()
	return s.table.Try(ctx, cs)
}

func (s *slow) Release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	s.take()
	return s.table.Release(ctx, cs)
}

// However many claims are tried or released, only some calls are under way at once, and a
// renewal waits for none of them. The call of a caller that gives up while it waits is not
// sent.
func TestCallsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := &slow{table: newTable()}
		e := rows.New(tab, rows.Limits{Name: "test"})
		held := claim("held", 1)
		mustTry(t, e, held)
		caller, giveUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { _, _ = e.Try(t.Context(), claim(fmt.Sprint("job ", i), uint64(i+2))) })
			wg.Go(func() { _ = e.Release(t.Context(), claim(fmt.Sprint("other ", i), uint64(i+200))) })
		}
		synctest.Wait()
		for i := range 100 {
			wg.Go(func() {
				_, err := e.Try(deadline.Detach(caller), claim(fmt.Sprint("never ", i), uint64(i+400)))
				if !errors.Is(err, driver.ErrNotExecuted) || !errors.Is(err, context.Canceled) {
					t.Errorf("Try whose caller gave up before it was sent: got error %v", err)
				}
			})
		}
		synctest.Wait()
		giveUp()
		began := time.Now()
		if got, err := e.Renew(t.Context(), []driver.Claim{held}); err != nil || got[0].Err != nil || time.Since(began) > 0 {
			t.Errorf("Renew beside a hundred tries and releases: got %v, %v after %v, want an answer at once", got, err, time.Since(began))
		}
		wg.Wait()
		if tab.most.Load() != 16 || tab.sent.Load() != 201 {
			t.Errorf("got %d tries and releases under way at once and %d in all, want 16 and 201", tab.most.Load(), tab.sent.Load())
		}
	})
}

// Releases of one name queue in the process, not in the database.
func TestReleasesOfANameTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := &slow{table: newTable()}
		e := rows.New(tab, rows.Limits{Name: "test"})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { _ = e.Release(t.Context(), claim("job", uint64(i+1))) })
		}
		began := time.Now()
		wg.Wait()
		if tab.most.Load() != 1 || time.Since(began) != 5*time.Second {
			t.Errorf("five releases of a name that take a second: got %d at once, and %v, want one and 5 s", tab.most.Load(), time.Since(began))
		}
	})
}

// A name that was just found taken is read first; one that was released is tried at once.
func TestTakenNamesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, c := held(t, tab, false, "job")
		before := tab.calls()
		passing := claim("job", 2)
		passing.NoQueue = true
		for range 50 {
			if out, err := e.Try(t.Context(), passing); err != nil || out.Granted || out.Holder != c.Note {
				t.Fatalf("Try of a held name: got %+v, %v", out, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		after := tab.calls()
		if tries, looks := after.tries-before.tries, after.looks-before.looks; tries != 1 || looks != 49 {
			t.Errorf("50 calls: got %d tries and %d reads, want 1 and 49", tries, looks)
		}
		mustRelease(t, e, c)
		if out, err := e.Try(t.Context(), passing); err != nil || !out.Granted || tab.calls().looks != after.looks {
			t.Errorf("Try of a released name: got %+v, %v, and %d reads, want a grant without one", out, err, tab.calls().looks-after.looks)
		}
	})
}

// A waiter costs no tries, whether it is in the queue or not. One that is not in the queue
// enters it as soon as there is room.
func TestWaitersDoNotTry(t *testing.T) {
	for _, listens := range []bool{false, true} {
		t.Run(fmt.Sprint("listens=", listens), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable()
				e, c := held(t, tab, listens, "job")
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var placed atomic.Int32
				for i := range rows.Waiting + 20 {
					wg.Go(func() { waitFor(ctx, e, claim("job", uint64(i+2)), &placed) })
				}
				time.Sleep(3 * time.Second)
				before := tab.calls()
				if _, err := e.Renew(t.Context(), []driver.Claim{c}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				after := tab.calls()
				if tries, looks := after.tries-before.tries, after.looks-before.looks; tries != 0 || looks > 90 || placed.Load() != rows.Waiting {
					t.Errorf("five seconds: got %d tries and %d reads, %d have a place; want no try, 90 reads at most, and %d", tries, looks, placed.Load(), rows.Waiting)
				}
				tab.change(func() { tab.rows["job"].waiters = tab.rows["job"].waiters[5:] })
				time.Sleep(5 * time.Second)
				n := 0
				tab.change(func() { n = len(tab.rows["job"].waiters) })
				if n != rows.Waiting {
					t.Errorf("%d have a place after five were lost, want %d", n, rows.Waiting)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

// waitFor waits for the name of c until ctx ends, and counts itself while it is in the
// queue.
func waitFor(ctx context.Context, e *rows.Engine, c driver.Claim, placed *atomic.Int32) {
	w := e.Waiter(c)
	defer w.Close()
	for was := false; ctx.Err() == nil; {
		out, err := e.Try(ctx, c)
		if err != nil {
			return
		}
		if out.Queued != was {
			was = out.Queued
			placed.Add(map[bool]int32{true: 1, false: -1}[was])
		}
		_, _ = w.Wait(ctx, out)
	}
}
