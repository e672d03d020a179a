package pgtest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestConformance runs the whole specification, and that of consoles, with settings that package
// storestest does not have: at every other isolation level, over the other kind of pool, through
// a pooler, and without notifications. Its checks share a Backend, and so what it listens to.
func TestConformance(t *testing.T) {
	const isolation = "&default_transaction_isolation="
	for name, open := range map[string]func(t *testing.T, url string) *pghold.Backend{
		"databasesql, polling, repeatable read": func(t *testing.T, url string) *pghold.Backend {
			return pghold.NewDB(newDB(t, url+isolation+"repeatable%20read"), nil)
		},
		"serializable": func(t *testing.T, url string) *pghold.Backend {
			return pghold.New(newPool(t, url+isolation+"serializable"), listening(t, url))
		},
		"pooler": func(t *testing.T, url string) *pghold.Backend {
			return pghold.New(newPool(t, sqltest.PgBouncer(t, url)), listening(t, url))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, database(t))
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			sqltest.Prepared(t, b)
			t.Run("Turns", func(t *testing.T) { rowstest.Turns(t, b) })
			t.Run("Admin", func(t *testing.T) {
				admintest.Suite{Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			})
		})
	}
}
