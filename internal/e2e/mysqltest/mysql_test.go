package mysqltest

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// shared is the server of all tests that do not harm it. Its time is not UTC.
var shared = &sqltest.Shared{Run: sqltest.RunMySQL, Settings: []string{"--default-time-zone=-02:30"}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// ansi is modes of SQL that change what a statement means.
const ansi = "interpolateParams=true&sql_mode=%27ANSI%2CTRADITIONAL%2CPIPES_AS_CONCAT%2CNO_BACKSLASH_ESCAPES%2CSIMULTANEOUS_ASSIGNMENT%27"

// TestConformance runs the whole specification, and that of consoles, at every isolation level, in
// modes of SQL that change what a statement means, and with options of the driver that do. The
// default is a driver that prepares statements; package storestest has one that does not.
func TestConformance(t *testing.T) {
	for name, params := range map[string]string{
		"default":                  "",
		"read committed, found":    "?tx_isolation=%27READ-COMMITTED%27&clientFoundRows=true",
		"serializable, no mode":    "?tx_isolation=%27SERIALIZABLE%27&sql_mode=%27%27&interpolateParams=true&time_zone=%27%2B09%3A00%27",
		"snapshot isolation, ansi": "?innodb_snapshot_isolation=ON&clientFoundRows=true&" + ansi,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := mysqlhold.New(newDB(t, database(t)+known(params)), nil)
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			sqltest.Prepared(t, b)
			t.Run("Turns", func(t *testing.T) { rowstest.Turns(t, b) })
			t.Run("Admin", func(t *testing.T) {
				admintest.Suite{Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			})
		})
	}
}

// oracle reports whether the server is MySQL.
func oracle() bool { return os.Getenv(sqltest.MySQLEnv) != "" }

// known returns the params that the server knows. MySQL has another name for the isolation
// level, and not all that MariaDB has.
func known(params string) string {
	if !oracle() {
		return params
	}
	return strings.NewReplacer("?tx_", "?transaction_", "innodb_snapshot_isolation=ON&", "", "%2CSIMULTANEOUS_ASSIGNMENT", "").Replace(params)
}

// start returns the name for the driver of the first database of the common server, and a
// pool of connections to it.
func start(t *testing.T) (dsn string, admin *sql.DB) {
	t.Helper()
	server, admin := shared.Use(t)
	return server.Name, admin
}

// database makes a database of its own for t on the common server, and returns its name for
// the driver.
func database(t *testing.T) string {
	t.Helper()
	dsn, admin := start(t)
	name := sqltest.DatabaseName(t)
	execute(t, admin, "DROP DATABASE IF EXISTS "+name, "CREATE DATABASE "+name) // for the next run, too
	return strings.TrimSuffix(dsn, "test") + name
}

// onLoopback returns the name for the driver of the database of a server that is reached at
// addr.
func onLoopback(addr string) string { return "test@tcp(" + addr + ")/test?interpolateParams=true" }

func newDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
