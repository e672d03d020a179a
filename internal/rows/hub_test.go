package rows_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// held returns a store in which claim 1 holds name.
func held(t *testing.T, tab *table, listens bool, name string) (*rows.Engine, driver.Claim) {
	t.Helper()
	e, c := newEngine(tab, listens), claim(name, 1)
	t.Cleanup(func() { _ = e.Drain(context.Background()) }) // the link outlasts its last waiter
	mustTry(t, e, c)
	return e, c
}

func mustTry(t *testing.T, e *rows.Engine, c driver.Claim) {
	t.Helper()
	if out, err := e.Try(t.Context(), c); err != nil || !out.Granted {
		t.Fatalf("Try of %s by %s: got %+v and error %v, want a grant", c.Name, c.Owner, out, err)
	}
}

func mustRelease(t *testing.T, e *rows.Engine, c driver.Claim) {
	t.Helper()
	if err := e.Release(t.Context(), c); err != nil {
		t.Fatalf("Release of %s by %s: %v", c.Name, c.Owner, err)
	}
}

// refused tries name, which is held, and returns a waiter for it.
func refused(t *testing.T, e *rows.Engine, name string, seq uint64) (driver.Waiter, driver.Outcome) {
	t.Helper()
	c := claim(name, seq)
	out, err := e.Try(t.Context(), c)
	if err != nil || out.Granted {
		t.Fatalf("Try of a held name: got %+v, %v", out, err)
	}
	return e.Waiter(c), out
}

// mustWait returns how long a Wait took, which must succeed.
func mustWait(t *testing.T, w driver.Waiter, out driver.Outcome) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := w.Wait(t.Context(), out); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return time.Since(began)
}

// All waiters share one connection that listens, which ends with the last of them.
func TestWaitersShareALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, c := held(t, tab, true, "job")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 20 {
			w, out := refused(t, e, "job", uint64(i+2))
			wg.Go(func() {
				defer w.Close()
				for range 2 { // the first returns as listening begins
					_, _ = w.Wait(ctx, out)
					out, _ = e.Try(t.Context(), claim("job", uint64(i+2)))
				}
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before := tab.calls().looks
		time.Sleep(time.Minute / 10)
		if tab.calls().listens != 1 || tab.calls().links != 1 || tab.calls().looks != before {
			t.Errorf("got %d links, %d live, and %d looks beside them, want one link and no look", tab.calls().listens, tab.calls().links, tab.calls().looks-before)
		}
		mustRelease(t, e, c)
		cancel() // the release wakes one of them
		wg.Wait()
		if err := e.Drain(t.Context()); err != nil || tab.calls().links != 0 {
			t.Errorf("after the last waiter: %d links, error %v", tab.calls().links, err)
		}
	})
}

// A connection that listens outlasts its last waiter for a while, so that the next one
// needs no other.
func TestNextWaiterFindsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, true)
		wait := func(seq uint64) {
			name := fmt.Sprint("job ", seq)
			mustTry(t, e, claim(name, 1))
			w, out := refused(t, e, name, seq)
			defer w.Close()
			mustWait(t, w, out) // it is listened
		}
		for seq := range uint64(10) {
			wait(seq + 2)
			time.Sleep(time.Second)
		}
		if got := tab.calls(); got.listens != 1 || got.links != 1 {
			t.Errorf("got %d links, %d of them live, want one for all", got.listens, got.links)
		}
		time.Sleep(time.Minute)
		if n := tab.calls().links; n != 0 {
			t.Errorf("%d links a minute after the last waiter, want none", n)
		}
		wait(20)
		began := time.Now()
		if err := e.Drain(t.Context()); err != nil || time.Since(began) > time.Second || tab.calls().links != 0 {
			t.Errorf("Drain: %v after %v, %d links, want none at once", err, time.Since(began), tab.calls().links)
		}
	})
}

// Waits that are shorter than the time to connect share one connection: it is made while nobody
// waits.
func TestShortWaitsShareALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		tab.connect = 15 * time.Millisecond
		e, _ := held(t, tab, true, "job")
		for seq := range uint64(100) {
			w, out := refused(t, e, "job", seq+2)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, _ = w.Wait(ctx, out)
			cancel()
			w.Close()
			mustRelease(t, e, claim("job", seq+2)) // from the queue
			time.Sleep(time.Millisecond)
		}
		if got := tab.calls(); got.listens != 1 || got.links != 1 {
			t.Errorf("100 short waits made %d connections, %d of them listen, want one for all", got.listens, got.links)
		}
	})
}

// A wait that is over before the hub connects makes no connection.
func TestShortestWaitMakesNoLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, c := held(t, tab, true, "job")
		w, out := refused(t, e, "job", 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _ = w.Wait(ctx, out)
		w.Close()
		mustRelease(t, e, c)
		time.Sleep(time.Second)
		if n := tab.calls().listens; n != 0 {
			t.Errorf("a wait of a millisecond made %d connections, want none", n)
		}
	})
}

// A waiter for a new name, while others listen already, may have missed a release since its
// Try.
func TestJoinOfALiveLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, _ := held(t, tab, true, "other")
		first, out := refused(t, e, "other", 2)
		defer first.Close()
		mustWait(t, first, out) // listening begins
		c := claim("job", 3)
		mustTry(t, e, c)
		w, out := refused(t, e, "job", 4)
		defer w.Close()
		mustRelease(t, e, c)
		if took := mustWait(t, w, out); took > 0 {
			t.Fatalf("Wait after the name was released: took %v, want a return at once", took)
		}
		mustTry(t, e, claim("job", 4)) // it is the first of those who wait
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		out, _ = e.Try(t.Context(), claim("job", 5))
		if _, err := w.Wait(ctx, out); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Wait while nothing changes: got %v, want the context's end", err)
		}
	})
}

// A notification may come between the refused Try and the first Wait, while another waiter
// of this client listens already.
func TestNotifiedBeforeTheFirstWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := held(t, newTable(), true, "job")
		spare, out := refused(t, e, "job", 2)
		defer spare.Close()
		mustWait(t, spare, out) // listening begins
		w, out := refused(t, e, "job", 3)
		defer w.Close()
		mustRelease(t, e, claim("job", 2))
		mustRelease(t, e, c)
		if took := mustWait(t, w, out); took > 0 {
			t.Errorf("Wait after the turn has come: took %v, want a return at once", took)
		}
	})
}

// Only the first waiter is notified. If it has died, the others are woken soon after.
func TestTurnOfOneWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := held(t, newTable(), true, "job")
		refused(t, e, "job", 2) // never calls again
		w, out := refused(t, e, "job", 3)
		defer w.Close()
		mustWait(t, w, out) // listening begins
		out, _ = e.Try(t.Context(), claim("job", 3))
		mustRelease(t, e, c)
		if took := mustWait(t, w, out); took != rows.Turn {
			t.Errorf("Wait: took %v, want a return after %v", took, rows.Turn)
		}
		mustTry(t, e, claim("job", 3))
	})
}

// Two processes that take turns need three calls for each turn: a release, a refused Try
// and a granted Try.
func TestCallsOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		var wg sync.WaitGroup
		for process := range uint64(2) {
			e := newEngine(tab, true)
			t.Cleanup(func() { _ = e.Drain(context.Background()) })
			wg.Go(func() {
				for n := range uint64(50) {
					hold(t, e, claim("job", 10*n+process+1), 20*time.Millisecond)
				}
			})
		}
		time.Sleep(210 * time.Millisecond) // both listen
		before := tab.calls()
		time.Sleep(40 * 20 * time.Millisecond)
		after := tab.calls()
		wg.Wait()
		if tries, looks := after.tries-before.tries, after.looks-before.looks; tries < 80 || tries+looks > 88 {
			t.Errorf("40 turns: got %d tries and %d looks, want 80 tries, and a few more or looks for turns that pass", tries, looks)
		}
	})
}

// hold takes the name of c, waits for it if necessary, holds it for so long and releases
// it.
func hold(t *testing.T, e *rows.Engine, c driver.Claim, long time.Duration) {
	w := e.Waiter(c)
	defer w.Close()
	for {
		out, err := e.Try(t.Context(), c)
		if err != nil {
			t.Error(err)
			return
		}
		if out.Granted {
			w.Close()
			time.Sleep(long)
			if err := e.Release(t.Context(), c); err != nil {
				t.Error(err)
			}
			return
		}
		if _, err := w.Wait(t.Context(), out); err != nil {
			t.Error(err)
			return
		}
	}
}

// Without notifications, the first waiter is late by a part of the time that the lock is
// held, and polls no more often than that allows.
func TestFirstLooksOften(t *testing.T) {
	for _, long := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 5 * time.Second} {
		t.Run(long.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable()
				e, c := held(t, tab, false, "job")
				w, out := refused(t, e, "job", 2)
				defer w.Close()
				time.AfterFunc(long, func() {
					if err := e.Release(t.Context(), c); err != nil {
						t.Error(err)
					}
				})
				late, most := mustWait(t, w, out)-long, max(min(long/4, 100*time.Millisecond), time.Millisecond)
				if late > most {
					t.Errorf("Wait: returned %v after the release, want %v at most", late, most)
				}
				if looks, most := tab.calls().looks, 30+int(long/(75*time.Millisecond)); looks > most {
					t.Errorf("got %d looks, want %d at most", looks, most)
				}
			})
		})
	}
}

// Without notifications, processes take turns at a lock that is held for no time, and each
// polls in time when it is next, even if it was far back in the queue.
func TestPaceWhereRowsAreLookedAt(t *testing.T) {
	for _, test := range []struct {
		processes int
		turn      time.Duration // how long one takes at most, on average
		looks     int           // for each turn
	}{{4, 1400 * time.Microsecond, 2}, {16, 3 * time.Millisecond, 6}} {
		t.Run(fmt.Sprint(test.processes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable()
				var wg sync.WaitGroup
				const each = 100
				n := (test.processes - 1) * each // until the first process may be done
				turns := make([]time.Duration, 0, n+each)
				began := time.Now()
				for process := range uint64(test.processes) {
					e := newEngine(tab, false)
					t.Cleanup(func() { _ = e.Drain(context.Background()) })
					wg.Go(func() {
						for i := range uint64(each) {
							hold(t, e, claim("job", 100*i+process+1), time.Millisecond/2)
							tab.change(func() { turns = append(turns, time.Since(began)) })
						}
					})
				}
				wg.Wait()
				took, looks := turns[n]/time.Duration(n), tab.calls().looks/n
				t.Logf("a turn took %v, with %d looks at rows", took, looks)
				if took > test.turn || looks > test.looks {
					t.Errorf("a turn took %v, with %d looks at rows, want %v and %d looks at most", took, looks, test.turn, test.looks)
				}
			})
		})
	}
}

// A waiter that missed its turn, and so lost its position, is woken to take a new one.
func TestMissedTurnTakesANewPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, _ := held(t, tab, false, "job")
		w, out := refused(t, e, "job", 2)
		defer w.Close()
		time.AfterFunc(time.Second, func() { tab.change(func() { tab.rows["job"].waiters = nil }) })
		if took := mustWait(t, w, out); took > 1100*time.Millisecond {
			t.Fatalf("Wait: took %v, want that it returns within 100 ms of the loss", took)
		}
		out, err := e.Try(t.Context(), claim("job", 2))
		if err != nil || !out.Queued {
			t.Fatalf("Try: got %+v and error %v, want a place", out, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Wait(ctx, out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait with a place: got error %v, want that it goes on", err)
		}
	})
}

// Rows are polled however many waiters begin to wait, and however often.
func TestLooksAreNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, c := held(t, tab, false, "job")
		w, out := refused(t, e, "job", 2)
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				passing, end := context.WithTimeout(ctx, time.Millisecond/2)
				_, _ = w.Wait(passing, out)
				end()
			}
		})
		time.Sleep(time.Second)
		if n := tab.calls().looks; n < 9 {
			t.Errorf("%d looks in a second, want ten or more", n)
		}
		cancel()
		wg.Wait()
		_ = e.Release(t.Context(), c)
	})
}

// A waiter that is not in the queue is never notified, and polls.
func TestWaitWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := held(t, newTable(), true, "job")
		passing := claim("job", 2)
		passing.NoQueue = true
		out, err := e.Try(t.Context(), passing)
		if err != nil || out.Granted || out.Queued {
			t.Fatalf("Try with NoQueue: got %+v, %v", out, err)
		}
		w := e.Waiter(passing)
		defer w.Close()
		for range 3 { // the first returns as listening begins
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if _, err = w.Wait(ctx, out); err == nil {
				out, _ = e.Try(t.Context(), passing)
			}
			cancel()
		}
		if err == nil {
			t.Error("Wait returns while the name is held: another Try would not enter the queue either")
		}
		mustRelease(t, e, c)
		for range 2 {
			if took := mustWait(t, w, out); took > 200*time.Millisecond {
				t.Errorf("Wait: took %v, want that it returns soon", took)
			}
		}
	})
}

// Without a connection that listens, for a while or always, rows are polled: those of all
// waiters in one call, ten times a second and a little more often at first.
func TestRowsAreLookedAt(t *testing.T) {
	for what, down := range map[string]error{"for now": errors.New("connection refused"), "forever": fmt.Errorf("a pooler: %w", errors.ErrUnsupported), "not tried": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable()
				tab.down = down
				e, c := held(t, tab, down != nil, "job")
				mustTry(t, e, claim("other", 2))
				w, out := refused(t, e, "job", 3)
				defer w.Close()
				also, alsoOut := refused(t, e, "other", 4)
				defer also.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := also.Wait(ctx, alsoOut); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Wait for what is held: got %v, want the context's end", err)
					}
				})
				wg.Go(func() {
					time.Sleep(4 * time.Second)
					if err := e.Release(t.Context(), c); err != nil {
						t.Error(err)
					}
				})
				began := time.Now()
				if _, err := w.Wait(ctx, out); err != nil || time.Since(began) > 4*time.Second+150*time.Millisecond || time.Since(began) < 4*time.Second {
					t.Errorf("Wait: got %v after %v, want a wake-up within 150 ms of the release, after 4 s", err, time.Since(began))
				}
				if tab.calls().looks < 50 || tab.calls().looks > 80 {
					t.Errorf("%d looks in 4 s, want about 65", tab.calls().looks)
				}
				wg.Wait()
			})
		})
	}
}

// If a table has no queue, no waiter is the first: the pauses grow, even if the row was
// written by a clock that is ahead.
func TestLooksWithoutAQueue(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newTable()
				tab.chance = true
				e, _ := held(t, tab, false, "job")
				tab.rows["job"].since = time.Now().Add(ahead)
				w, out := refused(t, e, "job", 2)
				defer w.Close()
				before := tab.calls().looks
				for range 20 { // each returns after 100 ms
					mustWait(t, w, out)
				}
				if looks := tab.calls().looks - before; looks > 90 {
					t.Errorf("%d looks in 2 s, want 90 at most", looks)
				}
			})
		})
	}
}

// With a clock that is ahead, the first in a queue polls no more often than others.
func TestLooksAtARowOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, _ := held(t, tab, false, "job")
		tab.rows["job"].since = time.Now().Add(time.Hour)
		w, out := refused(t, e, "job", 2)
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := w.Wait(ctx, out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: got %v, want the context's end", err)
		}
		if looks := tab.calls().looks; looks > 30 {
			t.Errorf("%d looks in 2 s, want 30 at most", looks)
		}
	})
}

// A lost connection counts as a release, and is replaced.
func TestLostLinkWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e, c := held(t, tab, true, "job")
		w, out := refused(t, e, "job", 2)
		defer w.Close()
		for cuts := range 3 {
			mustWait(t, w, out) // listening began
			out, _ = e.Try(t.Context(), claim("job", 2))
			woken := make(chan error, 1)
			go func() {
				_, err := w.Wait(t.Context(), out)
				woken <- err
			}()
			synctest.Wait()
			if len(woken) != 0 {
				t.Fatalf("Wait returned before the link was cut for the %d. time", cuts+1)
			}
			tab.cut()
			synctest.Wait()
			if len(woken) != 1 {
				t.Fatalf("Wait did not return when the link was cut for the %d. time", cuts+1)
			}
			out, _ = e.Try(t.Context(), claim("job", 2))
		}
		if took := mustWait(t, w, out); took > time.Second || tab.calls().listens < 4 {
			t.Errorf("Wait after the link was lost: took %v, %d links", took, tab.calls().listens)
		}
		_ = e.Release(t.Context(), c)
	})
}

// A server that refuses to listen is not asked all the time.
func TestLinkIsTriedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		tab.down = errors.New("connection refused")
		e, _ := held(t, tab, true, "job")
		w, out := refused(t, e, "job", 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = w.Wait(ctx, out) // the lease of the holder has ended
		<-ctx.Done()
		if tab.calls().listens < 10 || tab.calls().listens > 30 {
			t.Errorf("%d attempts to listen in a minute, want 10 to 30", tab.calls().listens)
		}
		w.Close()
	})
}

// Wait returns at once for an Outcome of another store.
func TestForeignOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngine(newTable(), true).Waiter(claim("job", 1))
		defer w.Close()
		if out, err := w.Wait(t.Context(), driver.Outcome{}); err != nil || out.Granted {
			t.Errorf("got %+v, %v, want a return at once", out, err)
		}
	})
}
