package pgtest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestConformance runs the whole specification, at every isolation level, over both
// kinds of pool, directly and through a pooler, waiting in both ways. Its checks share a
// Backend, and so what it listens to.
func TestConformance(t *testing.T) {
	server, admin := start(t)
	const isolation = "&default_transaction_isolation="
	for name, open := range map[string]func(t *testing.T, url string) *pghold.Backend{
		"listening":   func(t *testing.T, url string) *pghold.Backend { return pghold.New(newPool(t, url), listening(t, url)) },
		"polling":     func(t *testing.T, url string) *pghold.Backend { return pghold.New(newPool(t, url), nil) },
		"databasesql": func(t *testing.T, url string) *pghold.Backend { return pghold.NewDB(newDB(t, url), listening(t, url)) },
		"repeatable read": func(t *testing.T, url string) *pghold.Backend {
			return pghold.New(newPool(t, url+isolation+"repeatable%20read"), listening(t, url))
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
			url := database(t, server, admin)
			b := open(t, url)
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			sqltest.Prepared(t, b)
			t.Run("Turns", func(t *testing.T) { rowstest.Turns(t, b) })
		})
	}
}
