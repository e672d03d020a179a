package mysqltest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestShedLockPublicTables makes tables as public projects make them.
func TestShedLockPublicTables(t *testing.T) {
	dsn, db, _ := sqltest.StartMySQL(t)
	seconds := []string{"lock_until is timestamp,", "locked_at is timestamp,", "milliseconds"}
	for _, table := range []sqltest.ShedLockTable{
		{File: "nulls", Table: "shedlock", Nulls: true},
		{File: "collation", Table: "shedlock", Nulls: true},
		{File: "latin1", Table: "SHEDLOCK", Nulls: true},
		{File: "datetime", Table: "shedlock"},
		{File: "seconds", Table: "shedlock", Want: seconds},
		{File: "on_update", Table: "shedlock", Want: seconds},
		{File: "myisam", Table: "shedlock", Want: []string{"its engine is MyISAM", "InnoDB"}},
		{File: "lock_name", Table: "shedlock", Want: []string{"there is no column name", "column lock_name has no default"}},
	} {
		t.Run(table.File, func(t *testing.T) {
			t.Parallel()
			dsn := database(t, dsn, db)
			b := mysqlhold.New(newDB(t, dsn), &mysqlhold.Options{Layout: mysqlhold.ShedLock, Table: table.Table})
			table.Test(t, newDB(t, dsn), b)
		})
	}
}
