package open

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

const (
	// openLong is the time after which an open transaction is a finding. Autovacuum looks at a
	// table once in this time, by default.
	openLong = time.Minute

	// behindMost is another limit: if more transactions than this number have begun since, what
	// keeps old versions of rows is a finding, too. For replication slots and standbys,
	// PostgreSQL has only this number, and no time.
	behindMost = 100_000
)

// openTransaction is something for which a PostgreSQL keeps old versions of rows in the database
// of the connection.
type openTransaction struct {
	Kind        string // one of those in openQuery
	ID          string // the process ID of a session, the name of a prepared transaction or of a slot
	Application string
	Role        string
	State       string  // of a session, such as "idle in transaction"
	Seconds     float64 // for how long it is open, for a session or a prepared transaction
	Behind      int64   // the number of newer transactions
	Total       int     // the number of such transactions, also if the result has fewer rows
}

// openQuery: $1 seconds, $2 transactions. A session without a snapshot and without a transaction
// ID keeps no versions, even if its transaction is open. VACUUM has a snapshot, but the server
// ignores it.
const openQuery = `SELECT *, count(*) OVER () AS total FROM (
 SELECT 'session' AS kind, pid::text AS id, coalesce(application_name, '') AS application, coalesce(usename, '')::text AS role,
  coalesce(state, '') AS state, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
  greatest(age(backend_xid), age(backend_xmin))::bigint AS behind
 FROM pg_stat_activity AS a WHERE datname = current_database() AND pid <> pg_backend_pid() AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
  AND xact_start IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
 UNION ALL SELECT 'prepared', gid, '', owner::text, '', extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)
 FROM pg_prepared_xacts WHERE database = current_database()
 UNION ALL SELECT 'slot', slot_name::text, '', '', '', 0, age(xmin) FROM pg_replication_slots WHERE xmin IS NOT NULL
 UNION ALL SELECT 'standby', pid::text, coalesce(application_name, ''), coalesce(usename, '')::text, '', 0, age(backend_xmin)
 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL) AS o
WHERE seconds >= $1 OR behind > $2
ORDER BY seconds DESC, behind DESC LIMIT 3`

// hiddenQuery counts the sessions whose transactions the user may not see.
const hiddenQuery = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename IS NOT NULL AND query = '<insufficient privilege>'`

// openTransactions judges whether a transaction is open for so long that it slows down locks.
func openTransactions(ctx context.Context, conn *pgx.Conn) doctor.Finding {
	rows, _ := conn.Query(ctx, openQuery, pgx.QueryExecModeExec, openLong.Seconds(), int64(behindMost)) // CollectRows returns the error
	oldest, err := pgx.CollectRows(rows, pgx.RowToStructByName[openTransaction])
	var hidden int
	if err == nil && len(oldest) == 0 {
		err = conn.QueryRow(ctx, hiddenQuery, pgx.QueryExecModeExec).Scan(&hidden)
	}
	return judgeOpen(oldest, hidden, err)
}

// judgeOpen returns the finding about open transactions. The parameter `hidden` is the number of
// sessions that the user may not see.
func judgeOpen(oldest []openTransaction, hidden int, err error) doctor.Finding {
	const id = "transactions"
	switch {
	case err != nil:
		return saw(id, doctor.Unknown, "the server does not report open transactions: %v", err)
	case len(oldest) == 0 && hidden > 0:
		f := saw(id, doctor.Unknown, "the user may not see the transactions of %s in this database", plural.Count(hidden, "session"))
		return because(f, "a transaction that is open for long slows down locks", "GRANT pg_read_all_stats TO <user>")
	case len(oldest) == 0:
		return saw(id, doctor.OK, "no transaction in this database is open for %.0f s or longer, or has more than %d newer ones", openLong.Seconds(), behindMost)
	}
	var names []string
	severity := doctor.Note // a backup each night is no fault
	for _, o := range oldest {
		names = append(names, o.String())
		if o.Behind > behindMost {
			severity = doctor.Warning
		}
	}
	if more := oldest[0].Total - len(oldest); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return because(saw(id, severity, "the server keeps old versions of rows for %s", strings.Join(names, "; ")),
		"autovacuum cannot remove versions of rows that are newer than such a transaction, so the table of locks grows, and statements on names that change often become slow",
		oldest[0].remedy())
}

// String names what keeps old versions of rows, and says how old it is.
func (o openTransaction) String() string {
	newer := plural.Count(o.Behind, "newer transaction")
	open := time.Duration(o.Seconds * float64(time.Second)).Round(time.Second)
	switch o.Kind {
	case "session":
		return fmt.Sprintf("the transaction of pid %s (application %q, role %q, %s), open for %v, %s", o.ID, o.Application, o.Role, o.State, open, newer)
	case "prepared":
		return fmt.Sprintf("the prepared transaction %q of role %q, open for %v, %s", o.ID, o.Role, open, newer)
	case "slot":
		return fmt.Sprintf("the replication slot %q, %s", o.ID, newer)
	}
	return fmt.Sprintf("a query on the standby of pid %s (application %q), %s", o.ID, o.Application, newer)
}

// remedy returns what ends the transaction, and what prevents the next one.
func (o openTransaction) remedy() string {
	switch o.Kind {
	case "session":
		return fmt.Sprintf("end it: SELECT pg_terminate_backend(%s); for the future: ALTER ROLE %s SET idle_in_transaction_session_timeout = '1min'",
			o.ID, pgx.Identifier{o.Role}.Sanitize())
	case "prepared":
		gid := "'" + strings.ReplaceAll(o.ID, "'", "''") + "'"
		return fmt.Sprintf("COMMIT PREPARED %s or ROLLBACK PREPARED %s", gid, gid)
	case "slot":
		return fmt.Sprintf("find the standby of the slot, and end its long queries or set hot_standby_feedback = off there; if the standby is gone: SELECT pg_drop_replication_slot('%s')", o.ID)
	}
	return "end the long queries on the standby, or set hot_standby_feedback = off there"
}
