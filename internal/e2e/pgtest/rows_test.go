package pgtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

func claim(name string, seq uint64) driver.Claim {
	return driver.Claim{Name: name, Client: "c", Seq: seq, Owner: fmt.Sprint("c:", seq), TTL: time.Minute, Count: 1, Tokens: 1}
}

// TestRows is about what a row keeps, where the specification has nothing to say of it.
func TestRows(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
	db := newDB(t, url)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	grant := func(c driver.Claim) driver.Outcome {
		t.Helper()
		out, err := b.Try(t.Context(), c)
		if err != nil || !out.Granted {
			t.Fatalf("Try of %s: got %+v, %v, want a grant", c.Owner, out, err)
		}
		return out
	}
	left := func(name string) (left time.Duration) {
		t.Helper()
		var ms int64
		if err := db.QueryRow("SELECT (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint FROM holdfast_locks WHERE name = $1", name).Scan(&ms); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ms) * time.Millisecond
	}

	c := claim("job", 1)
	grant(c)
	c.TTL = time.Second
	grant(c)
	if _, err := b.Renew(t.Context(), []driver.Claim{c}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(t.Context(), []driver.Claim{c, claim("none", 9)}); err != nil {
		t.Fatal(err)
	}
	if got := left("job"); got < 50*time.Second {
		t.Errorf("after a try and renewals with a short lease %v are left, want the minute of before", got)
	}

	// AtLeast counts from the release, and shortens what is left of the lease.
	c = claim("kept", 2)
	grant(c)
	c.AtLeast = 5 * time.Second
	if err := b.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := left("kept"); got <= 0 || got > 5*time.Second {
		t.Errorf("a name that stays taken for 5 s does so for %v", got)
	}

	// A token is never below the clock, so that a row may be deleted.
	before := grant(claim("token", 3)).Token
	if _, err := db.Exec("DELETE FROM holdfast_locks WHERE name = 'token'"); err != nil {
		t.Fatal(err)
	}
	if after := grant(claim("token", 4)).Token; after <= before {
		t.Errorf("token after the row was deleted: got %d, want more than %d", after, before)
	}

	// What expired is gone in a batch too.
	batch := []driver.Claim{claim("a", 5), claim("b", 6), claim("c", 7)}
	for i := range batch {
		batch[i].TTL = 300 * time.Millisecond
		grant(batch[i])
	}
	time.Sleep(400 * time.Millisecond)
	renewed, err := b.Renew(t.Context(), batch)
	for i, released := range b.ReleaseAll(t.Context(), batch) {
		if err != nil || !errors.Is(renewed[i].Err, driver.ErrGone) || !errors.Is(released, driver.ErrGone) {
			t.Errorf("claim %d after its lease: Renew %v, ReleaseAll %v, want ErrGone of both", i, renewed[i].Err, released)
		}
	}
}

// TestNoDeadlock has many connections change the same rows, in any order: the server
// finds no two that wait for each other.
func TestNoDeadlock(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
	db := newDB(t, url)
	for _, plan := range []string{"hashjoin", "mergejoin", "seqscan", "bitmapscan"} { // others happen to meet rows in one order
		if _, err := db.Exec("ALTER DATABASE " + quoted(url) + " SET enable_" + plan + " = off"); err != nil {
			t.Fatal(err)
		}
	}
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	var all []driver.Claim
	for i := range 60 {
		all = append(all, claim(fmt.Sprint("job ", i), uint64(i+1)))
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	end := time.Now().Add(3 * time.Second)
	var wg sync.WaitGroup
	for _, cs := range [][]driver.Claim{all, backwards, all, backwards} {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				switch n % 10 {
				case 9:
					b.ReleaseAll(t.Context(), cs)
				case 0:
					b.TryAll(t.Context(), cs)
				default:
					if _, err := b.Renew(t.Context(), cs); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	time.Sleep(1100 * time.Millisecond) // counts are reported once a second
	var n int
	if err := db.QueryRow("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&n); err != nil || n > 0 {
		t.Errorf("the server counted %d deadlocks, error %v, want none", n, err)
	}
}
