package pghold

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// undefinedTable is the SQLSTATE of a table that does not exist.
const undefinedTable = "42P01"

// serverError returns the error of the server that err wraps, or nil if err wraps none.
func serverError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// notPrepared reports whether err says that a prepared statement does not exist, exists
// already, or does not fit its table any more. In each of these cases, the server has not
// executed the statement. They occur behind a pooler that leadsToServer took for a server, and
// after another program has discarded prepared statements or changed the table.
func notPrepared(err error) bool {
	code := codeOf(err)
	return code == "26000" || code == "42P05" || code == "0A000"
}

// classify gets the error of a statement that is a transaction of its own. If the error shows
// the outcome of the statement, classify returns an error of package driver for it. If not,
// classify returns the error unchanged.
//
// An error of severity ERROR undoes the transaction, so nothing was executed. An error of
// severity FATAL ends the session, and may come after the commit, while the server waits for a
// standby. So it does not show the outcome.
func classify(err error) error {
	e := serverError(err)
	switch {
	case err == nil || errors.Is(err, driver.ErrNotExecuted):
		return err
	case e == nil && pgconn.SafeToRetry(err):
		return unsent.Error(err)
	case e == nil || e.SeverityUnlocalized != "ERROR":
		return err
	}
	switch {
	case e.Code == "40001" || e.Code == "40P01": // serialization failure, deadlock
		return fmt.Errorf("%w, %w: %w", driver.ErrNotExecuted, rows.ErrConflict, err)
	case hopeless(e.Code):
		return fmt.Errorf("%w, %w: %w", driver.ErrRefused, driver.ErrNotExecuted, err)
	}
	return unsent.Error(err)
}

// hopeless reports whether the server will answer with the same error code until an operator
// changes something.
func hopeless(code string) bool {
	switch code[:min(2, len(code))] {
	case "0A", "22", "23", "26", "28", "3D", "3F", "42": // unsupported, bad data, constraint, pooler, login, database, schema, syntax or permission
		return true
	}
	return code == "53100" || code == "08P01" // disk full; a pooler that does not know the protocol
}

// noConnection returns the error of a call that got no connection.
func noConnection(err error) error {
	if errors.Is(err, puddle.ErrClosedPool) || err.Error() == "sql: database is closed" {
		return fmt.Errorf("%w, %w, %w: %w", driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted, err)
	}
	if e := serverError(err); e != nil && hopeless(e.Code) {
		return fmt.Errorf("%w, %w: %w", driver.ErrRefused, driver.ErrNotExecuted, err)
	}
	return unsent.Error(err)
}
