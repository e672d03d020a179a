package pgtest

import (
	"errors"
	"strings"
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
	server, db := start(t)
	const isolation = "&default_transaction_isolation="
	for name, params := range map[string]string{
		"default": "", "repeatable read": isolation + "repeatable%20read", "serializable": isolation + "serializable", "zone": "&TimeZone=America/St_Johns", "pooler": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t, server, db)
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

// TestShedLockTables is about tables that others made, and what the layout cannot do.
func TestShedLockTables(t *testing.T) {
	server, db := start(t)
	for name, is := range map[string]struct{ columns, want string }{
		"milliseconds": {"name varchar(64) PRIMARY KEY, lock_until timestamp(3) NOT NULL, locked_at timestamp(3) NOT NULL, locked_by varchar(255) NOT NULL", ""},
		"more":         {"name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by text NOT NULL, token bigint NOT NULL DEFAULT 0", ""},
		"zone":         {"name text PRIMARY KEY, lock_until timestamptz, locked_at timestamp, locked_by text", "lock_until"},
		"seconds":      {"name text PRIMARY KEY, lock_until timestamp(0) NOT NULL, locked_at timestamp NOT NULL, locked_by text NOT NULL", "lock_until"},
		"short":        {"name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(40) NOT NULL", "locked_by"},
		"missing":      {"name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_by text NOT NULL", "locked_at"},
		"needed":       {"name text PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by text NOT NULL, job text NOT NULL", "job"},
	} {
		t.Run(name, func(t *testing.T) {
			url := database(t, server, db)
			if _, err := newDB(t, url).Exec("CREATE TABLE shedlock (" + is.columns + ")"); err != nil {
				t.Fatal(err)
			}
			b := pghold.New(newPool(t, url), shed())
			out, err := b.Try(t.Context(), claim("job", 1))
			switch {
			case is.want == "" && (err != nil || !out.Granted || out.Token != 0):
				t.Errorf("Try: got %+v and error %v, want a grant without a token", out, err)
			case is.want != "" && (!errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), is.want)):
				t.Errorf("Try: got error %v, want a refusal that names %s", err, is.want)
			}
		})
	}
	b := pghold.New(newPool(t, database(t, server, db)), shed())
	if _, err := b.Try(t.Context(), claim("job", 1)); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "CREATE TABLE") {
		t.Errorf("Try without a table: got error %v, want a refusal with the statement", err)
	}
	if err := b.LockTx(t.Context(), nil, "job"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("LockTx: got error %v, want errors.ErrUnsupported", err)
	}
	if caps := b.Info().Caps; caps.Fencing || caps.Wakes || !caps.AtLeast {
		t.Errorf("Caps: got %+v, want neither tokens nor wake-ups, and AtLeast", caps)
	}
}

// A row that somebody made by hand, to stop a job forever, is a lock like others.
func TestShedLockWithoutEnd(t *testing.T) {
	server, db := start(t)
	url := database(t, server, db)
	b := pghold.New(newPool(t, url), shed())
	if err := b.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := newDB(t, url).Exec("INSERT INTO shedlock VALUES ('job', 'infinity', '-infinity', 'the operators')"); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Try(t.Context(), claim("job", 1)); err != nil || out.Granted {
		t.Errorf("Try: got %+v and error %v, want that it is held", out, err)
	}
	if out, err := b.Try(t.Context(), claim("other", 2)); err != nil || !out.Granted {
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
