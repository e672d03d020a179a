package pghold

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// The SQLSTATEs that a call treats in its own way. The names are those of the documentation of
// PostgreSQL.
const (
	undefinedTable       = "42P01"
	duplicateTable       = "42P07"
	duplicateObject      = "42710" // of the type of the rows, which has the name of the table
	uniqueViolation      = "23505" // in the catalogue, if two sessions create the table
	invalidStatementName = "26000" // the prepared statement does not exist
	duplicateStatement   = "42P05" // the prepared statement exists already
	featureNotSupported  = "0A000" // the prepared statement does not fit its table any more
)

// severityError is the severity of an error that undoes the transaction, and keeps the session.
const severityError = "ERROR"

// serverError returns the error of the server that err wraps, or nil if err wraps none.
func serverError(err error) *pgconn.PgError {
	if err == nil { // otherwise each call that succeeds would allocate e
		return nil
	}
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
	switch codeOf(err) {
	case invalidStatementName, duplicateStatement, featureNotSupported:
		return true
	}
	return false
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
	case e == nil || e.SeverityUnlocalized != severityError:
		return err
	}
	meaning := answers.Postgres(e.Code, e.Message)
	if meaning == answers.Conflict {
		return fmt.Errorf("%w, %w: %w", driver.ErrNotExecuted, rows.ErrConflict, err)
	}
	if refusal := meaning.Refusal(); refusal != nil {
		return fmt.Errorf("%w, %w: %w", refusal, driver.ErrNotExecuted, err)
	}
	return unsent.Error(err)
}

// noConnection returns the error of a call that got no connection.
func noConnection(err error) error {
	if errors.Is(err, puddle.ErrClosedPool) || err.Error() == "sql: database is closed" {
		return fmt.Errorf("%w, %w, %w: %w", driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted, err)
	}
	if e := serverError(err); e != nil {
		if refusal := answers.Postgres(e.Code, e.Message).Refusal(); refusal != nil {
			return fmt.Errorf("%w, %w: %w", refusal, driver.ErrNotExecuted, err)
		}
	}
	return unsent.Error(err)
}
