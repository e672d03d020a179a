package pgtest

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestSilentConnections has every connection of a pool of database/sql forgotten, as it is made,
// and where many connections are idle. Package storestest has a pool of pgx.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	server, _ := shared.Use(t)
	at := func(addr string) string { return strings.Replace(server.Name, server.Addr(), addr, 1) }
	pools := map[string]func(t *testing.T, url string) *pghold.Backend{
		"databasesql":       func(t *testing.T, url string) *pghold.Backend { return pghold.NewDB(defaultDB(t, url, 0), nil) },
		"databasesql, idle": func(t *testing.T, url string) *pghold.Backend { return pghold.NewDB(defaultDB(t, url, 12), nil) },
	}
	for name, open := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silenttest.Store{Addr: server.Addr(), Open: func(t *testing.T, addr string, _ time.Duration) driver.Backend {
				return sqltest.Prepared(t, open(t, at(addr)))
			}}.Run(t)
		})
	}
}

// defaultDB is a pool of database/sql as it is made, or one that keeps so many idle
// connections.
func defaultDB(t *testing.T, url string, idle int) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	if idle > 0 {
		db.SetMaxIdleConns(idle)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
