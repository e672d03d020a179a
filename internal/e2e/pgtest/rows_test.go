package pgtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestRows is about what a row keeps.
func TestRows(t *testing.T) {
	url := database(t)
	sqltest.Rows{
		DB: newDB(t, url), Now: "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		Left: "SELECT (extract(epoch FROM expires - clock_timestamp()) * 1000000)::bigint FROM holdfast_locks WHERE name = '%s'",
	}.Test(t, sqltest.Prepared(t, pghold.New(newPool(t, url), nil)), pghold.New(newPool(t, url), nil))
}

// TestNoDeadlock has many connections change the same rows, in any order: the server
// finds no two that wait for each other.
func TestNoDeadlock(t *testing.T) {
	url := database(t)
	db := newDB(t, url)
	for _, plan := range []string{"hashjoin", "mergejoin", "seqscan", "bitmapscan"} { // others happen to meet rows in one order
		if _, err := db.Exec("ALTER DATABASE " + quoted(url) + " SET enable_" + plan + " = off"); err != nil {
			t.Fatal(err)
		}
	}
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	var all []driver.Claim
	for i := range 60 {
		all = append(all, sqltest.Claim(fmt.Sprint("job ", i), uint64(i+1)))
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	end := time.Now().Add(time.Second)
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
