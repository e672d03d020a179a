package pgtest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// shed is options for the table of ShedLock.
func shed() *pghold.Options { return &pghold.Options{Layout: pghold.ShedLock} }

// TestShedLock runs the specification over the table of ShedLock, at every isolation
// level, for sessions of another time zone, and through a pooler.
func TestShedLock(t *testing.T) {
	const isolation = "&default_transaction_isolation="
	for name, params := range map[string]string{
		"default": "", "repeatable read, zone": isolation + "repeatable%20read&TimeZone=America/St_Johns", "serializable": isolation + "serializable", "pooler": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			if name == "pooler" {
				url = sqltest.PgBouncer(t, url)
			}
			b := sqltest.Prepared(t, pghold.New(newPool(t, url+params), shed()))
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			t.Run("Admin", func(t *testing.T) {
				admintest.Suite{BriefReasons: true, Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			})
		})
	}
}

// A row that somebody made by hand, to stop a job forever, is a lock like others.
func TestShedLockWithoutEnd(t *testing.T) {
	url := database(t)
	b := pghold.New(newPool(t, url), shed())
	if err := b.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := newDB(t, url).Exec("INSERT INTO shedlock VALUES ('job', 'infinity', '-infinity', 'the operators')"); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Try(t.Context(), sqltest.Claim("job", 1)); err != nil || out.Granted {
		t.Errorf("Try: got %+v and error %v, want that it is held", out, err)
	}
	if out, err := b.Try(t.Context(), sqltest.Claim("other", 2)); err != nil || !out.Granted {
		t.Errorf("Try of another name: got %+v and error %v, want a grant", out, err)
	}
	n := 0
	for _, err := range admin.New(b).List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Errorf("List: got error %v", err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("List: got %d names, want two", n)
	}
}
