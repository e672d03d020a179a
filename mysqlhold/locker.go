package mysqlhold

import (
	"database/sql"

	"github.com/holdfast-go/holdfast"
)

// Locker returns a Locker over db, with the table DefaultTable. opts may be nil. The caller closes
// db after the last use of the Locker.
//
// For another table, or the methods of Backend, use the long form:
// holdfast.New(mysqlhold.New(db, storeOptions), opts).
func Locker(db *sql.DB, opts *holdfast.Options) *holdfast.Locker {
	return holdfast.New(New(db, nil), opts)
}
