package anystore

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// PostgreSQL is PostgreSQL, without a standby. Its clients listen for notifications, but for
// those of Default.
func PostgreSQL() *Kind {
	return &Kind{
		Name: "postgresql", Title: "PostgreSQL", Column: "PostgreSQL", Command: "PostgreSQL",
		Run: func(string) (*Store, error) {
			run := runDatabase(PostgreSQL(), "now()", costOfPostgreSQL)
			return run(sqltest.RunPostgreSQL("log_min_messages=fatal", "log_min_error_statement=panic", "max_connections=300"))
		},
		New: func() driver.Backend { return pghold.New(nil, nil) },

		Dial: postgreSQLWith(func(c *pgxpool.Config) { c.MaxConns = 8 }),
		Default: func(addr string, _ time.Duration) (driver.Backend, func(), error) {
			pool, err := pgxpool.New(context.Background(), postgreSQLAt(addr))
			if err != nil {
				return nil, nil, err
			}
			return pghold.New(pool, nil), pool.Close, nil
		},
		Crowd: crowdInPostgreSQL, Locker: postgreSQLLocker,
		Lossy: lossyPostgreSQL, Counted: countedPostgreSQL, Ask: askPostgreSQL,
		Bounds: func(c manytest.Crowd) manytest.Bounds { // eight statements of four waiters
			return manytest.Bounds{Requests: 200 + 2*c.Waiters, Numbers: 20, Connections: 86}
		},

		Refusals: []Refusal{
			{"no login", postgreSQLRefuses("ALTER ROLE app NOLOGIN", "ALTER ROLE app LOGIN")},
			{"no permission", postgreSQLRefuses("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM app", "GRANT ALL ON ALL TABLES IN SCHEMA public TO app")},
		},
		Unwell:     unwellPostgreSQL,
		Page:       postgreSQLPage,
		URL:        postgreSQLAt,
		ReleaseURL: func(addr string) string { return postgreSQLAt(addr) + "&pool_max_conns=8" },

		Database: true,
		Elsewhere: []Elsewhere{
			{Fault: "F44", Want: "LW", Test: "pgtest.TestPromotionOfASynchronousStandby"},
			{Fault: "F45", Want: "LW", Test: "pgtest.TestPromotionOfAnAsynchronousStandby"},
			{Fault: "F46", Want: "LU", Test: "pgtest.TestPromotionOfAnAsynchronousStandby", Notified: "when the lease ends"},
			{Fault: "F47", Want: "A", Test: "pgtest.TestServerClosesIdleConnections"},
			{Fault: "F48", Want: "A", Test: "pgtest.TestProxyDropsConnections"},
			{Fault: "F49", Want: "A", Test: "pgtest.TestPoolerRestarts"},
		},
		Without: map[string]string{"F40": "no leader", "F41": "no leader", "F42": "no leader", "F43": "no leader"},
	}
}

// postgreSQLAt is the URL of the database.
func postgreSQLAt(addr string) string { return "postgres://test@" + addr + "/postgres?sslmode=disable" }

// costOfPostgreSQL leaves out its own connection, and not its own statement.
func costOfPostgreSQL(db *sql.DB) (c Cost, err error) {
	const query = `SELECT
	(SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()),
	pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
	count(*), count(*) FILTER (WHERE state = 'active')
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
	err = db.QueryRow(query).Scan(&c.Requests, &c.Numbers, &c.Connections, &c.Busy)
	return c, err
}

// postgreSQLWith opens pools with settings that change makes, which listen for notifications.
func postgreSQLWith(change func(*pgxpool.Config)) Open {
	return func(addr string, _ time.Duration) (driver.Backend, func(), error) {
		config, err := pgxpool.ParseConfig(postgreSQLAt(addr))
		if err != nil {
			return nil, nil, err
		}
		listen := config.ConnConfig.Copy()
		change(config)
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return nil, nil, err
		}
		return pghold.New(pool, &pghold.Options{Listen: listen}), pool.Close, nil
	}
}

func postgreSQLLocker(addr string, opts *holdfast.Options) (*holdfast.Locker, func(), error) {
	pool, err := pgxpool.New(context.Background(), postgreSQLAt(addr))
	if err != nil {
		return nil, nil, err
	}
	return pghold.Locker(pool, opts), pool.Close, nil
}

func crowdInPostgreSQL(addr string, _ time.Duration) (driver.Backend, func(), error) {
	config, err := pgx.ParseConfig(postgreSQLAt(addr))
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxIdleConns(20) // else it closes what is needed soon, and the server still counts that
	return pghold.NewDB(db, &pghold.Options{Listen: config}), func() { _ = db.Close() }, nil
}

func lossyPostgreSQL() *Losses {
	loss := &sqltest.Losses{}
	loss.Percent.Store(20)
	open := postgreSQLWith(func(c *pgxpool.Config) {
		c.MaxConns = 4
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return loss.On(conn), nil
		}
	})
	return &Losses{Open: open, Lost: func() int { return int(loss.Lost.Load()) }, Heal: func() { loss.Percent.Store(0) }}
}

// countedPostgreSQL counts statements: there is one for each call of Renew.
func countedPostgreSQL(*Store) Counted {
	var sent statements
	open := postgreSQLWith(func(c *pgxpool.Config) {
		c.MaxConns = 4
		c.ConnConfig.Tracer = &sent
	})
	return Counted{Open: open, Requests: func() int { return int(sent.n.Load()) }, Each: 1}
}

// statements counts all that are sent.
type statements struct{ n atomic.Int64 }

// TraceQueryStart counts a statement.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

// TraceQueryEnd does nothing.
func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func askPostgreSQL(ctx context.Context, addr string) error {
	conn, err := pgx.Connect(ctx, postgreSQLAt(addr))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, "SELECT 1").Scan(new(int))
}
