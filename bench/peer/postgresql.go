package peer

import (
	"context"
	"database/sql"
	"hash/fnv"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/holdfast-go/holdfast/pghold"
)

// connections is how many a process may have: a lock of a connection needs one for each
// that is held or waited for.
const connections = 32

// Tables returns the tables that the peers keep locks in, in a database.
func Tables() []string { return []string{pghold.DefaultTable, heartbeatTable, rowTable} }

// PostgreSQLSchema returns the statements that make them.
func PostgreSQLSchema() []string {
	return []string{pghold.New(nil, nil).Schema(), postgreSQLHeartbeat().schema, pgRowSchema}
}

func openPool(ctx context.Context, t Target) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(t.PostgreSQL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

func holdfastPostgreSQL() Spec { return holdfastPostgreSQLAs("holdfast-postgresql", "", true) }

// holdfastPostgreSQLLooks is not woken, as behind a pooler.
func holdfastPostgreSQLLooks() Spec {
	return holdfastPostgreSQLAs("holdfast-postgresql-looks", Waits, false)
}

func holdfastPostgreSQLAs(name string, only Ability, listens bool) Spec {
	return Spec{
		Name: name, Client: "pgx", Role: Ours, Only: only, Can: []Ability{Waits, Renews},
		Open: func(ctx context.Context, t Target) (Peer, error) {
			pool, err := openPool(ctx, t)
			if err != nil {
				return nil, err
			}
			var options pghold.Options
			if listens {
				options.Listen = pool.Config().ConnConfig
			}
			return newHoldfastOn(pghold.New(pool, &options), t, pool.Close), nil
		},
	}
}

// pgAdvisory holds a lock as long as a connection: there is no lease and no token.
func pgAdvisory() Spec {
	return Spec{
		Name: "pg_advisory_lock", Client: "pgx", Role: Other, Can: []Ability{Waits},
		Open: func(ctx context.Context, t Target) (Peer, error) {
			pool, err := openPool(ctx, t)
			if err != nil {
				return nil, err
			}
			return &advisoryPeer{pool}, nil
		},
	}
}

type advisoryPeer struct{ pool *pgxpool.Pool }

func (p *advisoryPeer) Lock(ctx context.Context, key string) (Held, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(key)) // never fails
	number := int64(sum.Sum64())
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", number); err != nil {
		conn.Release()
		return nil, err
	}
	return &advisoryHeld{conn, number}, nil
}

func (p *advisoryPeer) Close() { p.pool.Close() }

type advisoryHeld struct {
	conn   *pgxpool.Conn
	number int64
}

func (h *advisoryHeld) Unlock() error {
	defer h.conn.Release()
	var was bool
	err := h.conn.QueryRow(context.Background(), "SELECT pg_advisory_unlock($1)", h.number).Scan(&was)
	if err == nil && !was {
		return errNotHeld
	}
	return err
}

func pgHeartbeat() Spec { return heartbeatSpec("heartbeat-row", "pgx", 0, postgreSQLHeartbeat) }

func pgHeartbeatQuick() Spec {
	return heartbeatSpec("heartbeat-row-100ms", "pgx", quickLease, postgreSQLHeartbeat)
}

// postgreSQLHeartbeat is how cirello/pglock does it, at its level of isolation.
func postgreSQLHeartbeat() heartbeatSQL {
	return heartbeatSQL{
		driver: "pgx", isolation: sql.LevelSerializable,
		at:     func(t Target) string { return t.PostgreSQL },
		schema: "CREATE TABLE " + heartbeatTable + " (name varchar(255) PRIMARY KEY, version varchar(64))",
		take: "INSERT INTO " + heartbeatTable + " AS t (name, version) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE " +
			"SET version = excluded.version WHERE t.version IS NULL OR t.version = $3",
		read:  "SELECT version FROM " + heartbeatTable + " WHERE name = $1 FOR UPDATE",
		write: "UPDATE " + heartbeatTable + " SET version = $1 WHERE name = $2 AND version = $3",
	}
}
