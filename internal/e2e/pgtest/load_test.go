package pgtest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// Waiters that poll cost a server a bounded number of connections, statements and transaction
// ids, however many they are. Package storestest has those that listen.
func TestBounds(t *testing.T) {
	server, _ := start(t)
	admin := newDB(t, server)
	admin.SetMaxOpenConns(1)
	load := pgLoad(t, database(t), admin)
	load.Most = func(c manytest.Crowd) manytest.Bounds { // two statements of four waiters
		return manytest.Bounds{Requests: 200 + c.Waiters/2, Numbers: 20, Connections: 86}
	}
	load.Run(t)
}

// openLoad opens a Backend over a pool without a limit.
func openLoad(url string) (driver.Backend, func(), error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxIdleConns(20) // else it closes what is needed soon, and the server still counts that
	return pghold.NewDB(db, nil), func() { _ = db.Close() }, nil
}

// pgLoad returns a Load of the database at url.
func pgLoad(t *testing.T, url string, admin *sql.DB) *manytest.Load {
	count := func(query string, args ...any) (n int) {
		if err := admin.QueryRow(query, args...).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	sqltest.Prepared(t, pghold.NewDB(db, nil))
	return &manytest.Load{
		Open: openLoad, At: url,
		Server: func() (statements, numbers int) {
			return count("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", config.Database),
				count("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
		},
		Clients: func() (connections, busy int) {
			const of = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
			return count(of, config.Database), count(of+" AND state = 'active'", config.Database)
		},
		Stranger: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			return conn.QueryRow(ctx, "SELECT 1").Scan(new(int))
		},
	}
}
