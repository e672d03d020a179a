package anystore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// MariaDB is MariaDB, without a standby.
func MariaDB() *Kind {
	k := likeMySQL()
	k.Name, k.Title = "mariadb", "MariaDB"
	k.Unwell = unwellMariaDB
	k.Refusals = []Refusal{{"password changed", mariaDBWithAnotherPassword}}
	k.Page = func(t *testing.T) { mySQLPage(t, sqltest.RunMariaDB) }
	k.Run = func(string) (*Store, error) {
		return runDatabase(MariaDB(), "UTC_TIMESTAMP(6)", costOfMySQL)(sqltest.RunMariaDB(mySQLSettings()...))
	}
	return k
}

// MySQL is the MySQL whose server sqltest.MySQLEnv names, without a standby.
func MySQL() *Kind {
	k := likeMySQL()
	k.Name, k.Title = "mysql", "MySQL"
	k.Page = func(t *testing.T) {
		if os.Getenv(sqltest.MySQLEnv) == "" {
			OrSkip(t, errNoMySQL())
		}
		mySQLPage(t, sqltest.RunMySQL)
	}
	k.Run = func(string) (*Store, error) {
		if os.Getenv(sqltest.MySQLEnv) == "" { // RunMySQL would run MariaDB
			return nil, errNoMySQL()
		}
		return runDatabase(MySQL(), "UTC_TIMESTAMP(6)", costOfMySQL)(sqltest.RunMySQL(mySQLSettings()...))
	}
	return k
}

func errNoMySQL() error {
	return fmt.Errorf("%w: %s does not name a server of MySQL", ErrMissing, sqltest.MySQLEnv)
}

// likeMySQL is what MySQL and MariaDB have in common.
func likeMySQL() *Kind {
	return &Kind{
		Column: "MariaDB, MySQL", Command: "MySQL",
		New: func() driver.Backend { return mysqlhold.New(nil, nil) },

		Dial: mySQLWith(ofConnections(8)), Default: mySQLWith(), Locker: mySQLLocker,
		Crowd: mySQLWith(func(db *sql.DB) { db.SetMaxIdleConns(20) }), // else it closes what is needed soon, and the server still counts that
		Lossy: lossyMySQL, Counted: countedMySQL, Ask: askMySQL,
		Bounds: func(c manytest.Crowd) manytest.Bounds {
			// 20 for each of four Backends, and those of calls that took longer than their time: the
			// driver closes them, and the server ends them later.
			return manytest.Bounds{Requests: 200 + c.Waiters/2, Connections: 120}
		},

		URL: func(addr string) string { return "mysql://test@" + addr + "/test" },

		Database: true,
		Elsewhere: []Elsewhere{
			{Fault: "F47", Want: "A", Test: "mysqltest.TestServerClosesIdleConnections"},
			{Fault: "F48", Want: "A", Test: "mysqltest.TestProxyDropsConnections"},
		},
		Without: map[string]string{
			"F40": "no leader", "F41": "no leader", "F42": "no leader", "F43": "no leader",
			"F44": Untested, "F45": Untested, "F46": Untested, "F49": Untested,
		},
	}
}

// mySQLSettings has the log with the system after each commit, so that a crash of the server
// loses none, and another time than UTC.
func mySQLSettings() []string {
	return []string{"--innodb-flush-log-at-trx-commit=2", "--default-time-zone=-02:30"}
}

// Quiet keeps the MySQL driver from writing about each connection that broke.
func Quiet() { _ = mysql.SetLogger(&mysql.NopLogger{}) }

// mySQLAt is the name of the database for the driver.
func mySQLAt(addr string) string { return "test@tcp(" + addr + ")/test?interpolateParams=true" }

// statementsOfCost is how many statements costOfMySQL sends.
const statementsOfCost = 3

// costOfMySQL leaves out its own connection, and not its own statements.
func costOfMySQL(db *sql.DB) (c Cost, err error) {
	const clients = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'test' AND id <> CONNECTION_ID()"
	return c, errors.Join(
		db.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(new(string), &c.Requests),
		db.QueryRow(clients).Scan(&c.Connections),
		db.QueryRow(clients+" AND command = 'Query'").Scan(&c.Busy),
	)
}

// ofConnections has a pool keep its connections, of which there are at most n.
func ofConnections(n int) func(*sql.DB) {
	return func(db *sql.DB) {
		db.SetMaxOpenConns(n)
		db.SetMaxIdleConns(n)
	}
}

// mySQLWith opens pools with settings that change makes.
func mySQLWith(change ...func(*sql.DB)) Open {
	return func(addr string, _ time.Duration) (driver.Backend, func(), error) {
		db, err := sql.Open("mysql", mySQLAt(addr))
		if err != nil {
			return nil, nil, err
		}
		for _, fn := range change {
			fn(db)
		}
		return mysqlhold.New(db, nil), func() { _ = db.Close() }, nil
	}
}

func mySQLLocker(addr string, opts *holdfast.Options) (*holdfast.Locker, func(), error) {
	db, err := sql.Open("mysql", mySQLAt(addr))
	if err != nil {
		return nil, nil, err
	}
	return mysqlhold.Locker(db, opts), func() { _ = db.Close() }, nil
}

func lossyMySQL() *Losses {
	loss := &sqltest.Losses{}
	loss.Percent.Store(20)
	open := func(addr string, _ time.Duration) (driver.Backend, func(), error) {
		db, err := sqltest.LossyMySQL(mySQLAt(addr), loss)
		if err != nil {
			return nil, nil, err
		}
		return mysqlhold.New(db, nil), func() { _ = db.Close() }, nil
	}
	return &Losses{Open: open, Lost: func() int { return int(loss.Lost.Load()) }, Heal: func() { loss.Percent.Store(0) }}
}

// countedMySQL counts statements, as the server does, without those of Cost: there are two for
// each call of Renew, as the second one reads the holders.
func countedMySQL(s *Store) Counted {
	own := 0
	count := func() int {
		c, err := s.Cost()
		if err != nil {
			return -1
		}
		n := c.Requests - own
		own += statementsOfCost
		return n
	}
	return Counted{Open: mySQLWith(ofConnections(4)), Requests: count, Each: 2}
}

func askMySQL(ctx context.Context, addr string) error {
	db, err := sql.Open("mysql", mySQLAt(addr))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
}
