package mysqltest

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

func TestMain(m *testing.M) {
	manytest.Serve(openLoad)
	goleak.VerifyTestMain(m)
}

// TestConformance runs the whole specification at every isolation level, in modes of SQL
// that change what a statement means, and with options of the driver that do.
func TestConformance(t *testing.T) {
	dsn, admin, oracle := sqltest.StartMySQL(t)
	settings := map[string]string{
		"default":            "",
		"interpolated":       "?interpolateParams=true&clientFoundRows=true",
		"read committed":     "?tx_isolation=%27READ-COMMITTED%27",
		"serializable":       "?tx_isolation=%27SERIALIZABLE%27&interpolateParams=true",
		"snapshot isolation": "?innodb_snapshot_isolation=ON&interpolateParams=true",
		"no mode":            "?sql_mode=%27%27&interpolateParams=true&time_zone=%27%2B09%3A00%27",
		"ansi":               "?sql_mode=%27ANSI%2CTRADITIONAL%2CPIPES_AS_CONCAT%2CNO_BACKSLASH_ESCAPES%27&interpolateParams=true",
		"simultaneous":       "?sql_mode=%27SIMULTANEOUS_ASSIGNMENT%27&interpolateParams=true&time_zone=%27-02%3A30%27",
	}
	if oracle { // which has another name for the level, and not all that MariaDB has
		delete(settings, "snapshot isolation")
		delete(settings, "simultaneous")
	}
	for name, params := range settings {
		if oracle {
			params = strings.ReplaceAll(params, "tx_isolation", "transaction_isolation")
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := mysqlhold.New(newDB(t, database(t, dsn, admin)+params), nil)
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			sqltest.Prepared(t, b)
			t.Run("Turns", func(t *testing.T) { rowstest.Turns(t, b) })
		})
	}
}

// database makes a database of its own for t on the server, and returns its name for the
// driver.
func database(t *testing.T, dsn string, admin *sql.DB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", " ", "_", "#", "_").Replace(t.Name()))
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
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
