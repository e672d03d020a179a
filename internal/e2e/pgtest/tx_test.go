package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestLockTx has transactions read a number and write the next one, in two statements,
// which loses updates unless they take turns.
func TestLockTx(t *testing.T) {
	url := database(t)
	pool, db := newPool(t, url), newDB(t, url)
	b := sqltest.Prepared(t, pghold.New(pool, nil))
	const workers, rounds = 6, 20
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			if _, err := db.Exec("DROP TABLE IF EXISTS counters; CREATE TABLE counters AS SELECT 0 AS n"); err != nil {
				t.Fatal(err)
			}
			ctx := await.Context(t, time.Minute)
			var wg sync.WaitGroup
			for i := range workers {
				count := func() error { return countPgx(ctx, b, pool.BeginTx, level) }
				if i%2 == 1 {
					count = func() error { return countSQL(ctx, b, db, level) }
				}
				wg.Go(func() {
					for range rounds {
						err := count()
						for begun := 0; conflicts(err) && level != pgx.ReadCommitted && begun < 1000; begun++ {
							err = count()
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			var n int
			if err := db.QueryRow("SELECT n FROM counters").Scan(&n); err != nil || n != workers*rounds {
				t.Errorf("the counter is at %d, error %v, want %d", n, err, workers*rounds)
			}
		})
	}
}

// conflicts reports that a transaction is to be begun again.
func conflicts(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "40001"
}

func countPgx(ctx context.Context, b *pghold.Backend, begin func(context.Context, pgx.TxOptions) (pgx.Tx, error), level pgx.TxIsoLevel) error {
	tx, err := begin(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := b.LockTx(ctx, tx, "counter"); err != nil {
		return err
	}
	var n int
	if err := tx.QueryRow(ctx, "SELECT n FROM counters").Scan(&n); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE counters SET n = $1", n+1); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func countSQL(ctx context.Context, b *pghold.Backend, db *sql.DB, level pgx.TxIsoLevel) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: map[pgx.TxIsoLevel]sql.IsolationLevel{
		pgx.ReadCommitted: sql.LevelReadCommitted, pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable,
	}[level]})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := b.LockSQLTx(ctx, tx, "counter"); err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counters").Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE counters SET n = $1", n+1); err != nil {
		return err
	}
	return tx.Commit()
}

// TestLockTxEnds has a rollback, and the end of a connection, free the name; a lease of
// the same name is another lock.
func TestLockTxEnds(t *testing.T) {
	url := database(t)
	pool := newPool(t, url)
	b := sqltest.Prepared(t, pghold.New(pool, nil))
	ctx := await.Context(t, 20*time.Second)
	begin := func() pgx.Tx {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	first, second := begin(), begin()
	if err := b.LockTx(ctx, first, "job"); err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := b.LockTx(brief, second, "job"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("LockTx of a name that is locked: got %v, want the context's end", err)
	}
	_ = second.Rollback(ctx)

	for what, end := range map[string]func(tx pgx.Tx) error{
		"rollback": func(tx pgx.Tx) error { return tx.Rollback(ctx) },
		"loss":     func(tx pgx.Tx) error { return tx.Conn().PgConn().Conn().Close() },
	} {
		next := begin()
		got := make(chan error, 1)
		go func() { got <- b.LockTx(ctx, next, "job") }()
		if err := end(first); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("LockTx after the %s of another: %v", what, err)
		}
		_ = first.Rollback(ctx) // gives a lost connection back to the pool
		first = next
	}
	defer func() { _ = first.Rollback(ctx) }()

	lock, err := holdfast.New(b, nil).Lock(ctx, "job")
	if err != nil {
		t.Fatalf("Lock of a name that LockTx has: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}
