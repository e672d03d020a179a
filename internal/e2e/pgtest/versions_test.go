package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// oldTransaction returns a transaction that has read, and stays open until t ends. The server
// keeps each version of a row that is newer.
func oldTransaction(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if err := tx.QueryRow("SELECT count(*) FROM pg_class").Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	return tx
}

// versions are the counters of the server about a table of locks.
type versions struct{ updates, hot, blocks int64 }

// counted returns the counters of a database to which pool has the only connection.
func counted(t testing.TB, pool *pgxpool.Pool) (v versions) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), "SELECT pg_stat_force_next_flush()"); err != nil {
		t.Fatal(err)
	}
	err := pool.QueryRow(context.Background(), `SELECT n_tup_upd, n_tup_hot_upd, heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid)`).Scan(&v.updates, &v.hot, &v.blocks)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVersionsOfARow has a name change hands for as long as a transaction is open. No statement
// writes more than one version of the row, the versions need no entries in the index, except
// the first version of a page, and statements do not read the old versions.
func TestVersionsOfARow(t *testing.T) {
	url := database(t)
	pool := newPool(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	b := sqltest.Prepared(t, pghold.New(pool, nil))
	const writes = 5
	turn := func() {
		t.Helper()
		holder, waiter := sqltest.Claim("job", 1), sqltest.Claim("job", 2)
		if out, err := b.Try(t.Context(), holder); err != nil || !out.Granted {
			t.Fatalf("Try of a free name: got %+v, error %v", out, err)
		}
		mustWait(t, b, waiter)
		for _, fixed := range []bool{true, false} { // the first only reads
			holder.Fixed = fixed
			if got, err := b.Renew(t.Context(), []driver.Claim{holder}); err != nil || got[0].Err != nil {
				t.Fatalf("Renew: got %v, error %v", got, err)
			}
		}
		for _, c := range []driver.Claim{holder, waiter} {
			if err := b.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn()
	if _, err := pool.Exec(t.Context(), "VACUUM ANALYZE holdfast_locks"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		turn() // the server plans for a table of one page
	}
	oldTransaction(t, newDB(t, url))
	for range 400 {
		turn()
	}
	const turns = 20
	before := counted(t, pool)
	for range turns {
		turn()
	}
	after := counted(t, pool)
	if n := after.updates - before.updates; n != writes*turns {
		t.Errorf("%d turns wrote %d versions, want %d in each", turns, n, writes)
	}
	if after.hot < after.updates*95/100 {
		t.Errorf("%d of %d updates needed no entry in the index, want 95%%", after.hot, after.updates)
	}
	each := (after.blocks - before.blocks) / turns
	t.Logf("blocks in each turn: %d, with %d versions", each, after.updates)
	if each > 120 { // 43, and 243 if each statement reads all versions
		t.Errorf("each turn reads %d blocks beside an old transaction, want at most 120", each)
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM holdfast_locks"); err != nil {
		t.Fatal(err)
	}
	turn() // creates the row
}

// TestRowThatChangesMeanwhile has each statement wait for a row that another transaction then
// changes: the statement finds the changed row, and needs no repetition. With an old transaction,
// the row has so many versions that other statements are used. Poolers need statements that are
// not prepared.
func TestRowThatChangesMeanwhile(t *testing.T) {
	for _, old := range []bool{false, true} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
			t.Run(fmt.Sprintf("old=%v %v", old, mode), func(t *testing.T) { rowThatChangesMeanwhile(t, old, mode) })
		}
	}
}

func rowThatChangesMeanwhile(t *testing.T, old bool, mode pgx.QueryExecMode) {
	url := database(t)
	db := newDB(t, url)
	var seen prepared
	pool := newPool(t, url, func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.ConnConfig.DefaultQueryExecMode = &seen, mode })
	b := sqltest.Prepared(t, pghold.New(pool, nil))
	c := sqltest.Claim("job", 1)
	c.Note = strings.Repeat("x", 500) // so that a page has room for few versions
	try := func() error {
		if out, err := b.Try(t.Context(), c); err != nil || !out.Granted {
			return fmt.Errorf("got %+v, error %v", out, err)
		}
		return nil
	}
	writes := 1
	if old {
		oldTransaction(t, db)
		writes = 400
	}
	for range writes {
		if err := try(); err != nil {
			t.Fatal(err)
		}
		c.Indeterminate = true // the next call of try repeats this one
	}
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Try", try},
		{"Renew", func() error {
			got, err := b.Renew(t.Context(), []driver.Claim{c})
			return errors.Join(err, got[0].Err)
		}},
		{"Release", func() error { return b.Release(t.Context(), c) }},
		{"Try of a free name", func() error {
			c = sqltest.Claim("job", 2)
			return try()
		}},
	} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE holdfast_locks SET forced_reason = $1", call.name); err != nil {
			t.Fatal(err)
		}
		sent := seen.sent.Load()
		done := make(chan error, 1)
		go func() { done <- call.do() }()
		await.Until(t, 10*time.Second, "the statement waits for the row", func() bool {
			var n int
			err := db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
			return err == nil && n == 1
		})
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
		if n := seen.sent.Load() - sent; n != 1 {
			t.Errorf("%s: %d statements, want 1", call.name, n)
		}
		var reason string
		if err := db.QueryRow("SELECT forced_reason FROM holdfast_locks").Scan(&reason); err != nil || reason != call.name {
			t.Errorf("after %s: the row has %q, error %v, want the change of the other transaction", call.name, reason, err)
		}
	}
}

// BenchmarkOldTransaction counts how often two processes get one name, without and with an old
// transaction. The number of calls is given, so that both have as many versions of the row:
//
//	go test ./internal/e2e/pgtest -run '^$' -bench OldTransaction -benchtime 6000x
func BenchmarkOldTransaction(b *testing.B) {
	for _, old := range []bool{false, true} {
		b.Run(fmt.Sprint("open=", old), func(b *testing.B) {
			url := database(b)
			var lockers []*holdfast.Locker
			for range 2 {
				store := pghold.New(newPool(b, url, func(c *pgxpool.Config) { c.MaxConns = 21 }), listening(b, url))
				lockers = append(lockers, holdfast.New(sqltest.Prepared(b, store), nil))
			}
			if old {
				oldTransaction(b, newDB(b, url))
			}
			var turns atomic.Int64
			var late atomic.Int64 // when the last fifth began, in nanoseconds
			b.ResetTimer()
			began := time.Now()
			var wg sync.WaitGroup
			for _, l := range lockers {
				wg.Go(func() {
					for n := turns.Add(1); n <= int64(b.N); n = turns.Add(1) {
						if n == int64(b.N)*4/5 {
							late.Store(int64(time.Since(began)))
						}
						err := l.Mutex("job").Do(b.Context(), func(context.Context, *holdfast.Lock) error { return nil })
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			took := time.Since(began)
			b.ReportMetric(float64(b.N)/took.Seconds(), "grants/s")
			b.ReportMetric(float64(b.N)/5/(took-time.Duration(late.Load())).Seconds(), "grants/s-last-fifth")
		})
	}
}
