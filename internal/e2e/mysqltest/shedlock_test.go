package mysqltest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// shed is options for the table of ShedLock.
func shed() *mysqlhold.Options { return &mysqlhold.Options{Layout: mysqlhold.ShedLock} }

// TestShedLock runs the specification over the table of ShedLock, on a server whose time
// is not UTC, at isolation levels, in modes of SQL and with options of the driver that
// change what a statement means or answers.
func TestShedLock(t *testing.T) {
	for name, params := range map[string]string{
		"default":             "",
		"serializable, found": "?tx_isolation=%27SERIALIZABLE%27&interpolateParams=true&clientFoundRows=true",
		"ansi":                "?" + ansi,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := sqltest.Prepared(t, mysqlhold.New(newDB(t, database(t)+known(params)), shed()))
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			t.Run("Admin", func(t *testing.T) {
				admintest.Suite{BriefReasons: true, Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			})
		})
	}
}

// TestShedLockSpelling takes names that the documented column takes for one another: the
// one that has a row is locked, and the others are refused, in place of being one lock.
func TestShedLockSpelling(t *testing.T) {
	dsn := database(t)
	admin := newDB(t, dsn)
	if _, err := admin.Exec(strings.ReplaceAll(documented, "name VARCHAR(64)", "name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")); err != nil {
		t.Fatal(err)
	}
	b := mysqlhold.New(newDB(t, dsn), shed())
	if out, err := b.Try(t.Context(), sqltest.Claim("Job", 1)); err != nil || !out.Granted {
		t.Fatalf("Try of Job: got %+v and error %v, want a grant", out, err)
	}
	for i, name := range []string{"job", "JOB", "Job ", "Jöb"} {
		out, err := b.Try(t.Context(), sqltest.Claim(name, uint64(10+i)))
		if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), `"Job"`) {
			t.Errorf("Try of %q beside Job: got %+v and error %v, want a refusal that names Job", name, out, err)
		}
	}
	if out, err := b.Try(t.Context(), sqltest.Claim("\U0001f512", 20)); err != nil || !out.Granted {
		t.Errorf("Try of another name: got %+v and error %v, want a grant", out, err)
	}
}
