package mysqltest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// documented is the statement of ShedLock's documentation.
const documented = `CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL,
	locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`

// TestShedLockTables makes tables as public projects make them, and others.
func TestShedLockTables(t *testing.T) {
	const far = "?time_zone=%27%2B09%3A00%27"
	seconds := []string{"lock_until is timestamp;", "locked_at is timestamp;", "milliseconds"}
	tables := []sqltest.ShedLockTable{
		{File: "nulls", Nulls: true},
		{File: "collation", Nulls: true},
		{File: "latin1", Table: "SHEDLOCK", Nulls: true},
		{File: "datetime"},
		{File: "seconds", Want: seconds},
		{File: "on_update", Want: seconds},
		{File: "myisam", Want: []string{"its engine is MyISAM", "InnoDB"}},
		{File: "lock_name", Want: []string{"there is no column name", "column lock_name has no default"}},
		{File: "documented", Create: documented},
		{File: "zone", Create: documented, Params: far, Want: []string{"time_zone"}},
		{File: "zoneless", Create: "CREATE TABLE shedlock (name VARBINARY(64) PRIMARY KEY, lock_until DATETIME(3) NOT NULL, locked_at DATETIME(6) NOT NULL, locked_by VARCHAR(255) NOT NULL)", Params: far},
		{File: "short", Create: "CREATE TABLE shedlock (name VARCHAR(64) PRIMARY KEY, lock_until DATETIME(3) NOT NULL, locked_at DATETIME(6) NOT NULL, locked_by VARCHAR(40) NOT NULL)", Want: []string{"locked_by"}},
		{File: "commits", Create: documented, Params: "?autocommit=0", Want: []string{"autocommit"}},
	}
	for _, charset := range []string{"latin1", "utf8mb3", "utf8mb4", "utf16", "utf32"} { // that of the database, if nobody says which
		tables = append(tables, sqltest.ShedLockTable{File: "charset " + charset, Create: documented + " CHARACTER SET " + charset, Lock: "jöb"})
	}
	for _, table := range tables {
		t.Run(table.File, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			b := mysqlhold.New(newDB(t, dsn+table.Params), &mysqlhold.Options{Layout: mysqlhold.ShedLock, Table: table.Name()})
			table.Test(t, newDB(t, dsn), b)
		})
	}
	b := mysqlhold.New(newDB(t, database(t)), shed())
	sqltest.ShedLockLacks(t, b, b.LockTx(t.Context(), nil, "job"))
}
