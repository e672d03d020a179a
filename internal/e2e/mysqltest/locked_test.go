package mysqltest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// A try of a name that was just seen taken does not wait for a row that another transaction
// has locked, in either layout: a client that gives up would leave the statement in the
// server.
func TestTryDoesNotWaitForARow(t *testing.T) {
	_, admin := start(t)
	for layout, options := range map[string]*mysqlhold.Options{mysqlhold.DefaultTable: nil, "shedlock": {Layout: mysqlhold.ShedLock}} {
		t.Run(layout, func(t *testing.T) {
			db := newDB(t, database(t))
			b := sqltest.Prepared(t, mysqlhold.New(db, options))
			holder, passing := sqltest.Claim("job", 1), sqltest.Claim("job", 4)
			passing.NoQueue = true // else its turn would come before that of the next
			if out, err := b.Try(t.Context(), holder); err != nil || !out.Granted {
				t.Fatalf("Try of a free name: got %+v, %v", out, err)
			}
			if out, err := b.Try(t.Context(), passing); err != nil || out.Granted {
				t.Fatalf("Try of a held name: got %+v, %v", out, err)
			}
			unlock := lockRow(t, db, layout)
			out, err := b.Try(await.Context(t, 10*time.Second), sqltest.Claim("job", 2))
			if err != nil || out.Granted {
				t.Errorf("Try of a held name whose row is locked: got %+v, %v, want a refusal", out, err)
			}
			unlock()

			if err := b.Release(t.Context(), holder); err != nil {
				t.Fatal(err)
			}
			unlock = lockRow(t, db, layout)
			got := make(chan driver.Outcome, 1)
			go func() {
				out, err := b.Try(await.Context(t, 10*time.Second), sqltest.Claim("job", 3))
				if err != nil {
					t.Errorf("Try of a free name whose row is locked: %v", err)
				}
				got <- out
			}()
			for range 20 {
				if n := lockWaits(t, admin); n > 0 {
					t.Errorf("%d statements wait for a row", n)
					break
				}
				time.Sleep(10 * time.Millisecond) // the statement is repeated all the time
			}
			unlock()
			if out := <-got; !out.Granted {
				t.Errorf("Try of a free name whose row was locked: got %+v, want a grant", out)
			}
		})
	}
}

// lockRow locks the row of job until unlock is called.
func lockRow(t *testing.T, db *sql.DB, table string) (unlock func()) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := tx.QueryRow("SELECT name FROM " + table + " WHERE name = 'job' FOR UPDATE").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// lockWaits returns how many transactions wait for a row.
func lockWaits(t *testing.T, admin *sql.DB) (n int) {
	t.Helper()
	if err := admin.QueryRow("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
