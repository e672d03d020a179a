package pghold

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// modeKey is where a connection keeps how its statements are sent.
const modeKey = "holdfast: mode"

// send has do send a statement: prepared where that works, which takes a third of the
// server's time: it takes longer to plan a statement than to execute it.
func send(ctx context.Context, conn *pgx.Conn, do func(pgx.QueryExecMode) error) error {
	mode, err := modeOf(ctx, conn)
	if err != nil {
		return err
	}
	err = do(mode)
	if mode != pgx.QueryExecModeExec && notPrepared(err) {
		conn.PgConn().CustomData()[modeKey] = pgx.QueryExecModeExec
		err = do(pgx.QueryExecModeExec)
	}
	return classify(err)
}

// modeOf returns how statements are sent on conn: prepared where the caller's pool is made
// so and conn leads to the server itself. A pooler in transaction mode executes on one
// connection what it had prepared on another.
func modeOf(ctx context.Context, conn *pgx.Conn) (pgx.QueryExecMode, error) {
	if mode, known := conn.PgConn().CustomData()[modeKey].(pgx.QueryExecMode); known {
		return mode, nil
	}
	mode := pgx.QueryExecModeExec
	if c := conn.Config(); c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.StatementCacheCapacity > 0 {
		direct, err := leadsToServer(ctx, conn)
		if err != nil {
			return mode, noConnection(err)
		}
		if direct {
			mode = pgx.QueryExecModeCacheStatement
		}
	}
	conn.PgConn().CustomData()[modeKey] = mode
	return mode, nil
}

// leadsToServer reports whether conn leads to the server itself. A pooler has no sessions of
// its own: it answers with the one that it lends at the moment, and names another when a
// client connects.
func leadsToServer(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid == conn.PgConn().PID(), err
}
