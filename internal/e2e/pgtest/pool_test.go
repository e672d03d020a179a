package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/pghold"
)

// exhausted is what the error of a call says that got no connection from a pool of two.
const exhausted = "no connection free in the pool of 2 within "

// TestExhaustedPool has the program use all connections of its pool.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	url, db := start(t)
	t.Run("pgxpool", func(t *testing.T) { exhaustPool(t, url, db) })
	t.Run("databasesql", func(t *testing.T) { exhaustDB(t, url) })
}

// exhaustPool is for a pool of pgx: a renewal makes a connection beside it, as the pool
// would, one at a time, and closes it; a Lock waits, and its error names the pool.
func exhaustPool(t *testing.T, url string, db *sql.DB) {
	t.Helper()
	var made, prepared atomic.Int32
	pool := newPool(t, url, func(config *pgxpool.Config) {
		config.MaxConns = 2
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			made.Add(1)
			c.RuntimeParams["application_name"] = "named"
			return nil
		}
		config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "SET search_path = public", pgx.QueryExecModeExec)
			return err
		}
		config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			prepared.Add(1)
			return true, nil
		}
	})
	const ttl = 2 * time.Second
	l := holdfast.New(sqltest.Prepared(t, pghold.New(pool, nil)), &holdfast.Options{TTL: ttl})
	defer must.Drain(t, l)
	held := must.Lock(t, l, "held")
	defer func() { _ = held.Unlock() }() // when the pool has connections again
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	before, ready := made.Load(), prepared.Load()
	_, err := l.TryLock(await.Context(t, 600*time.Millisecond), "other")
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), exhausted) || !strings.Contains(err.Error(), "(2 in use)") {
		t.Errorf("TryLock: got %v, want an error that says %q", err, exhausted)
	}
	await.Until(t, 2*ttl, "three renewals made connections", func() bool { return made.Load() >= before+3 && prepared.Load() >= ready+3 })
	if err := held.Err(); err != nil {
		t.Errorf("got %v, want a lock that is held", err)
	}
	await.Until(t, ttl, "no connection is left beside the pool", func() bool {
		n := 0
		err := db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'named'").Scan(&n)
		return err == nil && n == 2
	})
}

// exhaustDB has a lock lost for want of a connection of database/sql.
func exhaustDB(t *testing.T, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(2)
	l := holdfast.New(sqltest.Prepared(t, pghold.NewDB(db, nil)), &holdfast.Options{TTL: time.Second})
	sqltest.Exhausted(t, l, db)
}
