package mysqltest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestSilentConnections has every connection of a pool forgotten that keeps many idle connections.
// Package storestest has a pool as database/sql makes it.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	server, _ := shared.Use(t)
	silenttest.Store{Addr: server.Addr(), Open: func(t *testing.T, addr string, _ time.Duration) driver.Backend {
		db, err := sql.Open("mysql", onLoopback(addr))
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxIdleConns(12)
		t.Cleanup(func() { _ = db.Close() })
		return sqltest.Prepared(t, mysqlhold.New(db, nil))
	}}.Run(t)
}
