package mysqltest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestRows is about what a row keeps, also where the driver counts the rows that a statement
// has found in place of those that it has changed.
func TestRows(t *testing.T) {
	for name, params := range map[string]string{"changed": "", "found": "?clientFoundRows=true"} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t, database(t)+params)
			sqltest.Rows{
				DB: db, Now: "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
				Left: "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM holdfast_locks WHERE name = '%s'",
			}.Test(t, sqltest.Prepared(t, mysqlhold.New(db, nil)), mysqlhold.New(db, nil))
		})
	}
}
