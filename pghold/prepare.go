package pghold

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// modeKey is the key under which a connection keeps how its statements are sent.
const modeKey = "holdfast: mode"

// send calls do, which sends a statement: prepared if that works. That takes a third of the
// server's time, because planning a statement takes longer than executing it.
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

// modeOf returns how statements are sent on conn: prepared if the caller's pool prepares
// statements, and conn leads to the server itself. A pooler in transaction mode may execute
// a statement on another connection than the one on which it was prepared.
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

// leadsToServer reports whether conn leads to the server itself. A pooler has no sessions
// of its own: pg_backend_pid returns the session that it lends at the moment, and that is
// not the one that it named when the client connected.
func leadsToServer(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid == conn.PgConn().PID(), err
}
