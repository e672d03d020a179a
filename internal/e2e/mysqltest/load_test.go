package mysqltest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// Waiters cost a server a bounded number of connections and statements, however many they
// are: a hundred have a place in the queue.
func TestBounds(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	admin.SetMaxOpenConns(1)
	counts := []int{101}
	if sqltest.Full() {
		counts = []int{99, 100, 101, 200, 500}
	}
	for _, waiters := range counts {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			at := database(t, dsn, admin)
			load := mysqlLoad(t, at, admin)
			load.Run(t, waiters, 300, sqltest.Bounds{
				// 20 for each of four Backends, and those of calls that took longer than their time:
				// the driver closes them, and the server ends them later.
				Statements: 200 + waiters/2, Numbers: 0, Connections: 120,
			})
		})
	}
}

// mysqlLoad returns a Load of the database that the driver reaches at dsn.
func mysqlLoad(t *testing.T, dsn string, admin *sql.DB) *sqltest.Load {
	count := func(query string) (n int) {
		if err := admin.QueryRow(query).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	var name string
	if err := opened(t, dsn).QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return &sqltest.Load{
		Open: func() driver.Backend {
			return sqltest.Prepared(t, mysqlhold.New(opened(t, dsn+"?interpolateParams=true"), nil))
		},
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

// opened returns a pool without a limit.
func opened(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(20) // else it closes what is needed soon, and the server still counts that
	t.Cleanup(func() { _ = db.Close() })
	return db
}
