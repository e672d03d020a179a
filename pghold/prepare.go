package pghold

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// modeKey is the key of the pgx.QueryExecMode in the custom data of a connection.
const modeKey = "holdfast: mode"

// send calls the function `do`, which sends a statement. The statement is prepared if that
// works. The server executes a prepared statement in a third of the time of another statement,
// because planning takes longer than the execution.
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

// modeOf returns how statements are sent on conn: prepared if the pool of the caller prepares
// statements, and conn leads to the server itself. A pooler in transaction mode may execute a
// statement on a connection to the server on which it was not prepared.
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

// leadsToServer reports whether conn leads to the server itself, and not to a pooler. Behind a
// pooler, pg_backend_pid returns the process of the session that the pooler uses for this
// statement. This process differs from the process that the pooler named when the client
// connected.
func leadsToServer(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid == conn.PgConn().PID(), err
}
