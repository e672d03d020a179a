package pgtest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// Waiters cost a server a bounded number of connections, statements and transaction ids,
// however many they are: a hundred have a place in the queue.
func TestBounds(t *testing.T) {
	url, admin := sqltest.StartPostgreSQL(t, "max_connections=100")
	admin.SetMaxOpenConns(1)
	counts := []int{101}
	if sqltest.Full() {
		counts = []int{99, 100, 101, 200, 500}
	}
	for _, waiters := range counts {
		for what, statements := range map[string]int{"polling": 200 + waiters/2, "listening": 200 + 2*waiters} {
			t.Run(fmt.Sprint(waiters, " ", what), func(t *testing.T) {
				load := pgLoad(t, database(t, url, admin), admin, what == "listening")
				load.Run(t, waiters, 300, sqltest.Bounds{Statements: statements, Numbers: 20, Connections: 86})
			})
		}
	}
}

// pgLoad returns a Load of the database at url.
func pgLoad(t *testing.T, url string, admin *sql.DB, listens bool) *sqltest.Load {
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
	return &sqltest.Load{
		Open: func() driver.Backend {
			db, err := sql.Open("pgx", url)
			if err != nil {
				t.Fatal(err)
			}
			db.SetMaxIdleConns(20) // else it closes what is needed soon, and the server still counts that
			t.Cleanup(func() { _ = db.Close() })
			options := &pghold.Options{}
			if listens {
				options.Listen = config
			}
			return sqltest.Prepared(t, pghold.NewDB(db, options))
		},
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
