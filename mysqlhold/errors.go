package mysqlhold

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// noSuchTable is the number of the error for a table that does not exist.
const noSuchTable = 1146

// numberOf returns the number of an error of the server, or 0 if err is no such error. Each
// driver has its own type for these errors, but the texts are the same in all drivers.
func numberOf(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if m := regexp.MustCompile(`^Error (\d+)\b`).FindStringSubmatch(err.Error()); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	return 0
}

// answerOf returns the error of the server in an error of classify, which wraps several errors
// and has that of the server last. It returns any other error unchanged.
func answerOf(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // an error as classify returns it
		all := several.Unwrap()
		return all[len(all)-1]
	}
	return err
}

// classify gets the error of a statement that is a transaction of its own. If the error shows
// that the statement was not executed, classify returns an error of package driver for it. If
// not, classify returns the error unchanged.
func classify(err error) error {
	if err == nil || errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	meaning := answers.MySQL(numberOf(err))
	refusal := meaning.Refusal()
	switch {
	case refusal != nil:
		return fmt.Errorf("%w, %w: %w", refusal, driver.ErrNotExecuted, err)
	case meaning == answers.Conflict:
		return fmt.Errorf("%w, %w: %w", driver.ErrNotExecuted, rows.ErrConflict, err)
	case meaning == answers.Later:
		return unsent.Error(err)
	}
	return err
}

// noConnection returns the error of a call that got no connection.
func noConnection(err error) error {
	if err.Error() == "sql: database is closed" {
		return fmt.Errorf("%w, %w, %w: %w", driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted, err)
	}
	if err = classify(err); errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	return unsent.Error(err)
}
