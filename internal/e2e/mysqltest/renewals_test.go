package mysqltest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// The rows of a thousand locks are renewed by few statements, two for each call: the second
// one asks who holds.
func TestManyLocksAreRenewedTogether(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	b := sqltest.Prepared(t, mysqlhold.New(newDB(t, dsn+"?interpolateParams=true"), nil))
	asked := 0
	sqltest.Renewals(t, b, 2, func() (n int) {
		t.Helper()
		asked++
		if err := admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(new(string), &n); err != nil {
			t.Fatal(err)
		}
		return n - asked
	})
}
