package pghold

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
)

// Locker returns a Locker over pool, with the table DefaultTable and without notifications. The
// Logger of opts also gets the warnings of the store. opts may be nil. The caller closes pool
// after the last use of the Locker.
//
// For another table, notifications, or the methods of Backend, use the long form:
// holdfast.New(pghold.New(pool, storeOptions), opts).
func Locker(pool *pgxpool.Pool, opts *holdfast.Options) *holdfast.Locker {
	return holdfast.New(New(pool, storeOptions(opts)), opts)
}

// LockerDB does what Locker does, for the pools that NewDB takes.
func LockerDB(db *sql.DB, opts *holdfast.Options) *holdfast.Locker {
	return holdfast.New(NewDB(db, storeOptions(opts)), opts)
}

// storeOptions returns the options of a store whose Locker has the given options.
func storeOptions(opts *holdfast.Options) *Options {
	if opts == nil {
		return nil
	}
	return &Options{Logger: opts.Logger}
}
