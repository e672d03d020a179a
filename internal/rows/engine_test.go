package rows_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
)

func newEngine(t *table, listens bool) *rows.Engine {
	return rows.New(t, rows.Limits{Name: "test", Listens: listens})
}

func claim(name string, seq uint64) driver.Claim {
	const client = "0b6c9a0e-0000-4000-8000-000000000001"
	return driver.Claim{
		Name: name, Client: client, Seq: seq, Owner: fmt.Sprintf("%s:%d", client, seq),
		TTL: 10 * time.Second, Count: 1, Tokens: 1, Note: fmt.Sprint("claim ", seq),
	}
}

func TestConformance(t *testing.T) {
	for _, listens := range []bool{true, false} {
		t.Run(fmt.Sprintf("listens=%v", listens), func(t *testing.T) {
			drivertest.Suite{Open: func(t *testing.T) driver.Backend {
				e := newEngine(newTable(), listens)
				t.Cleanup(func() { _ = e.Drain(context.Background()) })
				return e
			}, Synctest: true}.Run(t)
		})
	}
}

func TestTurns(t *testing.T) { rowstest.Turns(t, newEngine(newTable(), false)) }

// Rows do not declare what they cannot do, so the core refuses it before any call.
func TestInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, listens := range []bool{true, false} {
			want := driver.Caps{Fencing: true, ExpiresAlone: true, AtLeast: true, Wakes: listens}
			if got := newEngine(newTable(), listens).Info(); got.Caps != want || got.MaxName != 512 || got.SessionTTL != 0 {
				t.Errorf("got %+v, want the capabilities %+v", got, want)
			}
		}
	})
}

// A call that the database has undone because of another is repeated. If it never succeeds,
// it was certainly not executed.
func TestConflictsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflict := fmt.Errorf("%w: %w", driver.ErrNotExecuted, rows.ErrConflict)
		tab := newTable()
		e := newEngine(tab, false)
		tab.before = func(tries int) error {
			if tries < 5 {
				return conflict
			}
			return nil
		}
		if out, err := e.Try(t.Context(), claim("job", 1)); err != nil || !out.Granted || tab.calls().tries != 5 {
			t.Fatalf("Try after conflicts: got %+v, %v after %d tries, want a grant after 5", out, err, tab.calls().tries)
		}
		tab.before = func(int) error { return conflict }
		began := time.Now()
		if out, err := e.Try(t.Context(), claim("job", 2)); !errors.Is(err, driver.ErrNotExecuted) || time.Since(began) > 5*time.Second {
			t.Fatalf("Try in endless conflict: got %+v, %v after %v, want ErrNotExecuted within 5 s", out, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err := e.Try(ctx, claim("job", 2)); err == nil || time.Since(began) > 15*time.Millisecond {
			t.Fatalf("Try in endless conflict, with a context that ends: got %v after %v", err, time.Since(began))
		}
	})
}

// A Release that was certainly not executed is not repeated in the background: its caller
// repeats it, and would find that the claim is gone.
func TestReleaseThatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := rows.New(&unsentOnce{table: newTable()}, rows.Limits{Name: "test"})
		c := claim("job", 1)
		mustTry(t, e, c)
		c.Indeterminate = true // an earlier try had no answer
		if err := e.Release(t.Context(), c); !errors.Is(err, driver.ErrNotExecuted) {
			t.Fatalf("first Release: got %v, want ErrNotExecuted", err)
		}
		time.Sleep(5 * time.Second)
		mustRelease(t, e, c)
		time.Sleep(5 * time.Second) // that one is repeated
	})
}

// unsentOnce is a table whose first Release is not sent.
type unsentOnce struct {
	*table
	sent bool
}

func (u *unsentOnce) Release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	if !u.sent {
		u.sent = true
		return nil, driver.ErrNotExecuted
	}
	return u.table.Release(ctx, cs)
}

// A row that is made while a Try runs is tried again alone. An error of that second call
// does not change the grants of the first.
func TestRowThatComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, false)
		tab.unseen["b"] = true
		got := e.TryAll(t.Context(), []driver.Claim{claim("a", 1), claim("b", 2)})
		if !got[0].Outcome.Granted || !got[1].Outcome.Granted || tab.calls().tries != 2 {
			t.Fatalf("got %+v after %d tries, want two grants after 2", got, tab.calls().tries)
		}
		tab.unseen["d"] = true
		tab.before = func(tries int) error {
			if tries == 4 {
				return driver.ErrNotExecuted
			}
			return nil
		}
		got = e.TryAll(t.Context(), []driver.Claim{claim("c", 3), claim("d", 4)})
		if !got[0].Outcome.Granted || got[0].Err != nil || !errors.Is(got[1].Err, driver.ErrNotExecuted) {
			t.Fatalf("got %+v, want a grant, and an error for the row that came up", got)
		}
	})
}

// Claims with different TTLs or numbers of tokens go into several calls, each with an
// answer of its own.
func TestBatchOfSeveralShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, false)
		cs := []driver.Claim{claim("a", 1), claim("b", 2), claim("c", 3), claim("d", 4)}
		cs[1].TTL, cs[2].Tokens, cs[3].NoQueue = time.Second, 7, true // the last is alike: no claim of a batch waits
		for i, a := range e.TryAll(t.Context(), cs) {
			if !a.Outcome.Granted || a.Outcome.ValidFor != cs[i].TTL {
				t.Errorf("claim %d: got %+v, want a grant for %v", i, a, cs[i].TTL)
			}
		}
		if tab.calls().tries != 3 {
			t.Errorf("got %d calls, want 3", tab.calls().tries)
		}
		cs = nil
		for i := range 1201 {
			cs = append(cs, claim(fmt.Sprint("many ", i), uint64(10+i)))
		}
		tab.change(func() { tab.made.tries = 0 })
		for i, a := range e.TryAll(t.Context(), cs) {
			if !a.Outcome.Granted {
				t.Fatalf("claim %d of 1201: got %+v, want a grant", i, a)
			}
		}
		if tab.calls().tries != 3 {
			t.Errorf("1201 claims: got %d calls, want 3", tab.calls().tries)
		}
	})
}

// The table is checked before each call until it has once been right.
func TestTableIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, false)
		tab.unchecked = fmt.Errorf("no table: make one: %w", driver.ErrRefused)
		c := claim("job", 1)
		_, tried := e.Try(t.Context(), c)
		renewed, _ := e.Renew(t.Context(), []driver.Claim{c})
		for what, err := range map[string]error{"Try": tried, "Renew": renewed[0].Err, "Release": e.Release(t.Context(), c)} {
			if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) {
				t.Errorf("%s without a table: got %v, want ErrRefused and ErrNotExecuted", what, err)
			}
		}
		if tab.calls().tries != 0 {
			t.Errorf("%d tries of a table that is not there", tab.calls().tries)
		}
		tab.unchecked = nil
		for range 3 {
			mustTry(t, e, c)
		}
		if tab.calls().checks != 4 {
			t.Errorf("got %d checks, want 3 that failed and one", tab.calls().checks)
		}
	})
}

// A Try that is executed after the release of its claim holds the name for a second, not
// for its lease.
func TestLateTryIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, false)
		late := claim("job", 1)
		late.TTL, late.Indeterminate = time.Hour, true
		if err := e.Release(t.Context(), late); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Release of a claim that has not arrived: got %v, want ErrGone", err)
		}
		if _, err := tab.Try(t.Context(), []driver.Claim{late}); err != nil {
			t.Fatal(err)
		}
		if out, _ := e.Try(t.Context(), claim("job", 2)); out.Granted {
			t.Fatal("the late try does not hold: nothing is tested")
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustTry(t, e, claim("job", 2))
		mustRelease(t, e, claim("job", 2))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Drain(ctx); err != nil {
			t.Errorf("Drain after the release of a claim that is settled: %v, want nothing in the background", err)
		}
	})
}

// The error of a call that may have been executed does not become driver.ErrNotExecuted.
func TestLostAnswerIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, false)
		tab.lost = true
		_, err := e.Try(t.Context(), claim("job", 1))
		if !errors.Is(err, errLost) || errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrGone) {
			t.Errorf("got %v, want the error of the call, and no certainty", err)
		}
	})
}

// For a claim with a fixed end a renewal reads the row and does not write it.
func TestFixedClaimIsRead(t *testing.T) {
	table := newTable()
	e := newEngine(table, false)
	held := claim("held", 1)
	mustTry(t, e, held)
	before := table.rows["held"].expires
	held.Fixed, held.TTL = true, time.Hour
	answers, err := e.Renew(t.Context(), []driver.Claim{held})
	if err != nil || answers[0].Err != nil {
		t.Fatalf("got %v, %v, want it held", answers, err)
	}
	if after := table.rows["held"].expires; !after.Equal(before) {
		t.Errorf("the check moved the end of the lease by %v", after.Sub(before))
	}
}

func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		e := newEngine(tab, false)
		expired, lost, deleted := claim("expired", 1), claim("lost", 2), claim("deleted", 3)
		expired.TTL, lost.TTL = time.Second, time.Second
		e.TryAll(t.Context(), []driver.Claim{expired, lost, deleted})
		time.Sleep(time.Second)
		e.TryAll(t.Context(), []driver.Claim{claim("lost", 4)})
		tab.change(func() { delete(tab.rows, "deleted") })
		got, _ := e.Renew(t.Context(), []driver.Claim{expired, lost, deleted})
		for i, want := range []driver.Reason{driver.ReasonExpired, driver.ReasonNotOwner, driver.ReasonDeleted} {
			var gone *driver.GoneError
			if !errors.As(got[i].Err, &gone) || gone.Reason != want || !errors.Is(got[i].Err, driver.ErrGone) {
				t.Errorf("claim %d: got %v, want the reason %s", i, got[i].Err, want)
			}
		}
	})
}
