package mysqltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestRows is about what a row keeps, where the specification has nothing to say of it.
func TestRows(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	for _, params := range []string{"", "?clientFoundRows=true"} {
		t.Run("params"+strings.ToLower(strings.NewReplacer("?", "_", "=", "_").Replace(params)), func(t *testing.T) {
			db := newDB(t, database(t, dsn, admin)+params)
			testRows(t, sqltest.Prepared(t, mysqlhold.New(db, nil)), func(statement string, into ...any) {
				t.Helper()
				if err := db.QueryRow(statement).Scan(into...); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func testRows(t *testing.T, b *mysqlhold.Backend, query func(statement string, into ...any)) {
	claim := func(name string, seq uint64) driver.Claim {
		return driver.Claim{Name: name, Client: "c", Seq: seq, Owner: fmt.Sprint("c:", seq), TTL: time.Minute, Count: 1, Tokens: 3}
	}
	grant := func(c driver.Claim) driver.Outcome {
		t.Helper()
		out, err := b.Try(t.Context(), c)
		if err != nil || !out.Granted {
			t.Fatalf("Try of %s: got %+v, %v, want a grant", c.Owner, out, err)
		}
		return out
	}
	left := func(name string) time.Duration {
		t.Helper()
		var us int64
		query("SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM holdfast_locks WHERE name = '"+name+"'", &us)
		return time.Duration(us) * time.Microsecond
	}

	// Nothing is changed by a try with a shorter lease: that is a grant all the same.
	c := claim("job", 1)
	first := grant(c)
	c.TTL = time.Second
	if again := grant(c); again.Token != first.Token {
		t.Errorf("repeated Try: got token %d, want %d", again.Token, first.Token)
	}
	if _, err := b.Renew(t.Context(), []driver.Claim{c}); err != nil {
		t.Fatal(err)
	}
	if got := left("job"); got < 50*time.Second {
		t.Errorf("after a try and a renewal with a short lease %v are left, want the minute of before", got)
	}

	// AtLeast counts from the release, and shortens what is left of the lease.
	c = claim("kept", 2)
	grant(c)
	c.AtLeast = 5 * time.Second
	if err := b.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := left("kept"); got <= 0 || got > 5*time.Second {
		t.Errorf("a name that stays taken for 5 s does so for %v", got)
	}

	// A token is never below the clock, so that a row may be deleted.
	var now int64
	query("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))", &now)
	if token := grant(claim("token", 3)).Token; token < uint64(now) {
		t.Errorf("token: got %d, want at least the time, %d", token, now)
	}
}
