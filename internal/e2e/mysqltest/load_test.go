package mysqltest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// Waiters cost a server a bounded number of connections and statements, however many they
// are: a hundred have a place in the queue.
func TestBounds(t *testing.T) {
	dsn, _ := start(t)
	admin := newDB(t, dsn)
	admin.SetMaxOpenConns(1)
	load := mysqlLoad(t, database(t), admin)
	load.Most = func(c manytest.Crowd) manytest.Bounds {
		// 20 for each of four Backends, and those of calls that took longer than their time: the
		// driver closes them, and the server ends them later.
		return manytest.Bounds{Requests: 200 + c.Waiters/2, Connections: 120}
	}
	load.Run(t)
}

// openLoad opens a Backend over a pool without a limit.
func openLoad(dsn string) (driver.Backend, func(), error) {
	db, err := sql.Open("mysql", dsn+"?interpolateParams=true")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxIdleConns(20) // else it closes what is needed soon, and the server still counts that
	return mysqlhold.New(db, nil), func() { _ = db.Close() }, nil
}

// mysqlLoad returns a Load of the database that the driver reaches at dsn.
func mysqlLoad(t *testing.T, dsn string, admin *sql.DB) *manytest.Load {
	count := func(query string) (n int) {
		if err := admin.QueryRow(query).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sqltest.Prepared(t, mysqlhold.New(db, nil))
	var name string
	if err := db.QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return &manytest.Load{
		Open: openLoad, At: dsn,
		Server: func() (statements, numbers int) {
			var n int
			if err := admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(new(string), &n); err != nil {
				t.Error(err)
			}
			return n, 0
		},
		Clients: func() (connections, busy int) {
			const of = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = "
			return count(of + "'" + name + "'"), count(of + "'" + name + "' AND command = 'Query'")
		},
		Stranger: func(ctx context.Context) error {
			db, err := sql.Open("mysql", dsn)
			if err != nil {
				return err
			}
			defer db.Close()
			return db.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
		},
	}
}
