package mysqltest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// The rows of a thousand locks are renewed by few statements, two for each call: the second
// one reads the holders.
func TestManyLocksAreRenewedTogether(t *testing.T) {
	const ttl = 6 * time.Second
	dsn, admin := start(t)
	b := sqltest.Prepared(t, mysqlhold.New(newDB(t, dsn+"?interpolateParams=true"), nil))
	asked := 0
	l := holdfast.New(b, &holdfast.Options{TTL: ttl})
	defer must.Drain(t, l)
	manytest.Renewals(t, l, ttl/3, 2, func() (n int) {
		t.Helper()
		asked++
		if err := admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(new(string), &n); err != nil {
			t.Fatal(err)
		}
		return n - asked
	})
}
