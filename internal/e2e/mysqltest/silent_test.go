package mysqltest

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestSilentConnections has every connection of a pool forgotten: of one as database/sql
// makes it, and of one that keeps many idle connections.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	server, _ := shared.Use(t)
	for _, idle := range []int{0, 12} {
		t.Run(fmt.Sprintf("%d idle", idle), func(t *testing.T) {
			t.Parallel()
			silenttest.Store{Addr: server.Addr(), Open: func(t *testing.T, addr string, _ time.Duration) driver.Backend {
				db, err := sql.Open("mysql", onLoopback(addr))
				if err != nil {
					t.Fatal(err)
				}
				if idle > 0 {
					db.SetMaxIdleConns(idle)
				}
				t.Cleanup(func() { _ = db.Close() })
				return sqltest.Prepared(t, mysqlhold.New(db, nil))
			}}.Run(t)
		})
	}
}
