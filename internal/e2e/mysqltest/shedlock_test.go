package mysqltest

import (
	"errors"
	"fmt"
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
	dsn, db, oracle := sqltest.StartMySQL(t, "--default-time-zone=-02:30")
	settings := map[string]string{
		"default":      "",
		"interpolated": "?interpolateParams=true&clientFoundRows=true",
		"serializable": "?tx_isolation=%27SERIALIZABLE%27&interpolateParams=true",
		"ansi":         "?sql_mode=%27ANSI%2CTRADITIONAL%2CPIPES_AS_CONCAT%2CNO_BACKSLASH_ESCAPES%27&interpolateParams=true",
		"simultaneous": "?sql_mode=%27SIMULTANEOUS_ASSIGNMENT%27&interpolateParams=true",
	}
	if oracle { // which has another name for the level, and not all that MariaDB has
		delete(settings, "simultaneous")
	}
	for name, params := range settings {
		if oracle {
			params = strings.ReplaceAll(params, "tx_isolation", "transaction_isolation")
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := sqltest.Prepared(t, mysqlhold.New(newDB(t, database(t, dsn, db)+params), shed()))
			drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
			t.Run("Admin", func(t *testing.T) {
				admintest.Suite{BriefReasons: true, Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			})
		})
	}
}

// documented is the statement of ShedLock's documentation.
const documented = `CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL,
	locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`

func shedClaim(name string, seq uint64) driver.Claim {
	return driver.Claim{Name: name, Client: "c", Seq: seq, Owner: fmt.Sprint("c:", seq), TTL: time.Minute, Count: 1, Tokens: 1}
}

// TestShedLockTables is about tables that others made, and what the layout cannot do.
func TestShedLockTables(t *testing.T) {
	dsn, db, _ := sqltest.StartMySQL(t)
	const times = ", lock_until TIMESTAMP(3) NOT NULL, locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"
	for name, is := range map[string]struct{ create, params, want string }{
		"documented": {documented, "", ""},
		"zone":       {documented, "?time_zone=%27%2B09%3A00%27", "time_zone"},
		"zoneless": {
			"CREATE TABLE shedlock (name VARBINARY(64) PRIMARY KEY, lock_until DATETIME(3) NOT NULL, locked_at DATETIME(6) NOT NULL, locked_by VARCHAR(255) NOT NULL)",
			"?time_zone=%27%2B09%3A00%27", "",
		},
		"seconds": {"CREATE TABLE shedlock (name VARCHAR(64) PRIMARY KEY, lock_until DATETIME NOT NULL, locked_at DATETIME(3) NOT NULL, locked_by VARCHAR(255) NOT NULL)", "", "lock_until"},
		"short":   {"CREATE TABLE shedlock (name VARCHAR(64) PRIMARY KEY" + times + ", locked_by VARCHAR(40) NOT NULL)", "", "locked_by"},
		"missing": {"CREATE TABLE shedlock (name VARCHAR(64) PRIMARY KEY" + times + ")", "", "locked_by"},
		"engine":  {documented + " ENGINE=MyISAM", "", "ENGINE"},
		"commits": {documented, "?autocommit=0", "autocommit"},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t, dsn, db)
			if _, err := newDB(t, dsn).Exec(is.create); err != nil {
				t.Fatal(err)
			}
			b := mysqlhold.New(newDB(t, dsn+is.params), shed())
			out, err := b.Try(t.Context(), shedClaim("Job", 1))
			switch {
			case is.want == "" && (err != nil || !out.Granted || out.Token != 0):
				t.Errorf("Try: got %+v and error %v, want a grant without a token", out, err)
			case is.want != "" && (!errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), is.want)):
				t.Errorf("Try: got error %v, want a refusal that names %s", err, is.want)
			}
		})
	}
	b := mysqlhold.New(newDB(t, database(t, dsn, db)), shed())
	if _, err := b.Try(t.Context(), shedClaim("job", 1)); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "CREATE TABLE") {
		t.Errorf("Try without a table: got error %v, want a refusal with the statement", err)
	}
	if err := b.LockTx(t.Context(), nil, "job"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("LockTx: got error %v, want errors.ErrUnsupported", err)
	}
	if caps := b.Info().Caps; caps.Fencing || caps.Wakes || !caps.AtLeast {
		t.Errorf("Caps: got %+v, want neither tokens nor wake-ups, and AtLeast", caps)
	}
}

// TestShedLockSpelling takes names that the documented column takes for one another: the
// one that has a row is locked, and the others are refused, in place of being one lock.
func TestShedLockSpelling(t *testing.T) {
	dsn, db, _ := sqltest.StartMySQL(t)
	dsn = database(t, dsn, db)
	admin := newDB(t, dsn)
	if _, err := admin.Exec(strings.ReplaceAll(documented, "name VARCHAR(64)", "name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")); err != nil {
		t.Fatal(err)
	}
	b := mysqlhold.New(newDB(t, dsn), shed())
	if out, err := b.Try(t.Context(), shedClaim("Job", 1)); err != nil || !out.Granted {
		t.Fatalf("Try of Job: got %+v and error %v, want a grant", out, err)
	}
	for i, name := range []string{"job", "JOB", "Job ", "Jöb"} {
		out, err := b.Try(t.Context(), shedClaim(name, uint64(10+i)))
		if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), `"Job"`) {
			t.Errorf("Try of %q beside Job: got %+v and error %v, want a refusal that names Job", name, out, err)
		}
	}
	if out, err := b.Try(t.Context(), shedClaim("\U0001f512", 20)); err != nil || !out.Granted {
		t.Errorf("Try of another name: got %+v and error %v, want a grant", out, err)
	}
}

// The columns of text may have any charset: that of the database, if nobody says which.
func TestShedLockCharsets(t *testing.T) {
	dsn, db, _ := sqltest.StartMySQL(t)
	for _, charset := range []string{"latin1", "utf8mb3", "utf8mb4", "utf16", "utf32"} {
		t.Run(charset, func(t *testing.T) {
			dsn := database(t, dsn, db)
			if _, err := newDB(t, dsn).Exec(documented + " CHARACTER SET " + charset); err != nil {
				t.Fatal(err)
			}
			b := mysqlhold.New(newDB(t, dsn), shed())
			first, second := shedClaim("jöb", 1), shedClaim("jöb", 2)
			first.TTL = 600 * time.Millisecond
			if out, err := b.Try(t.Context(), first); err != nil || !out.Granted {
				t.Fatalf("Try: got %+v and error %v, want a grant", out, err)
			}
			first.TTL = time.Minute
			if held, err := b.Renew(t.Context(), []driver.Claim{first}); err != nil || held[0].Err != nil {
				t.Fatalf("Renew: got %+v and error %v, want that it is held", held, err)
			}
			time.Sleep(700 * time.Millisecond) // the first lease would have ended
			if out, err := b.Try(t.Context(), second); err != nil || out.Granted {
				t.Errorf("Try while it is held: got %+v and error %v, want no grant", out, err)
			}
			if err := b.Release(t.Context(), first); err != nil {
				t.Error(err)
			}
			if out, err := b.Try(t.Context(), second); err != nil || !out.Granted {
				t.Errorf("Try after it: got %+v and error %v, want a grant", out, err)
			}
		})
	}
}
