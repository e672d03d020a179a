// Package shedlock keeps locks in the table of ShedLock, a library for Java, so that a program
// in Go and one in Java exclude each other on one name. A Table is a rows.Table over a
// Database. Package pghold has the Database for PostgreSQL, and package mysqlhold the Database
// for MariaDB and MySQL.
//
// The table has four columns: name, lock_until, locked_at and locked_by. A name is taken while
// lock_until is in the future. A row stays after the release of its lock, because ShedLock
// remembers which rows it has made.
//
// ShedLock itself writes its host name to locked_by, and compares this host name when it
// releases or extends a lock. This package writes a text that is unique to a claim, and whose
// first word is the state of the claim:
//
//	holdfast OWNER NOTE            the claim is held, or its lease has ended
//	holdfast-released OWNER NOTE   the claim was released; its name may stay taken, see Claim.AtLeast
//	holdfast-forced OWNER REASON   the claim was force unlocked
//
// So a late release by ShedLock does not match a claim of this package.
//
// The layout has no room for fencing tokens, nor for a queue of waiters.
package shedlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/rows"
)

// DefaultTable is the name that ShedLock gives to its table by default.
const DefaultTable = "shedlock"

const (
	// maxName is how many characters the column `name` has room for. Limits uses the same
	// number as a number of bytes, because a name of 64 bytes has at most 64 characters in
	// every character set.
	maxName = 64
	// maxBy is how many characters the column locked_by has room for.
	maxBy = 255
)

// Limits returns the limits of a Table. The parameter `store` becomes rows.Limits.Name.
func Limits(store string) rows.Limits {
	const year = 366 * 24 * time.Hour // the latest TIMESTAMP of MySQL is in 2038
	return rows.Limits{Name: store, Batch: 1, NoQueue: true, NoTokens: true, MaxName: maxName, MaxTTL: year, TTLStep: time.Millisecond}
}

// Database runs the statements of a Table. It returns the errors that a rows.Table must return.
type Database interface {
	// Check returns an error if the table does not exist, or cannot keep locks.
	Check(ctx context.Context) error

	// Exec runs a statement as a transaction of its own, and returns how many rows it
	// changed. That number may include rows that the statement found and did not change.
	Exec(ctx context.Context, statement string, args []any) (changed int64, err error)

	// Query runs a statement that reads. For each row, it stores the columns in the elements of
	// `into` and calls the function `scan`.
	Query(ctx context.Context, statement string, args, into []any, scan func()) error
}
