package mysqltest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestGrantOfALockedRow repeats the try of a claim that holds the name already, as after a lost
// answer, while another transaction has locked the row. The try cannot extend the lease then, so
// it must not promise more than what is left of it.
func TestGrantOfALockedRow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, statement string
		options         *mysqlhold.Options
	}{
		{"lease", "UPDATE holdfast_locks SET expires = expires - INTERVAL 5 SECOND", nil},
		{"shedlock", "UPDATE shedlock SET lock_until = lock_until - INTERVAL 5 SECOND", shed()},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := newDB(t, database(t))
			b := sqltest.Prepared(t, mysqlhold.New(db, test.options))
			held, other := sqltest.Claim("job", 1), sqltest.Claim("job", 2)
			held.TTL, other.TTL = 10*time.Second, 10*time.Second
			if out, err := b.Try(t.Context(), held); err != nil || !out.Granted {
				t.Fatalf("got %+v, %v, want a grant", out, err)
			}
			if out, err := b.Try(t.Context(), other); err != nil || out.Granted { // tries of a taken name skip a locked row
				t.Fatalf("got %+v, %v, want no grant", out, err)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(test.statement); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if tx, err = db.BeginTx(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.Exec("SELECT * FROM " + map[bool]string{true: "holdfast_locks", false: "shedlock"}[test.options == nil] + " FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			out, err := b.Try(t.Context(), held)
			if err != nil {
				t.Fatal(err)
			}
			if out.Granted && out.ValidFor > 5*time.Second+2*time.Millisecond {
				t.Errorf("the try promises %v, but the lease in the table ends within 5 s", out.ValidFor)
			}
		})
	}
}
