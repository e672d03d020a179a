package mysqltest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestServerClosesIdleConnections has the server close connections after a second, which
// is less than between two renewals: each renewal finds its connection closed, whether the
// driver looks before it uses one or not.
func TestServerClosesIdleConnections(t *testing.T) {
	_, admin := start(t)
	const closes = "?wait_timeout=1&"
	for name, params := range map[string]string{
		"looks":         "interpolateParams=true",
		"does not look": "interpolateParams=true&checkConnLiveness=false",
		"prepares":      "checkConnLiveness=false",
	} {
		t.Run(name, func(t *testing.T) {
			at := database(t) + closes
			const ttl = 4 * time.Second
			db := newDB(t, at+params)
			holder := holdfast.New(sqltest.Prepared(t, mysqlhold.New(db, nil)), &holdfast.Options{TTL: ttl})
			other := holdfast.New(mysqlhold.New(newDB(t, at), nil), &holdfast.Options{TTL: ttl})
			before := closedByServer(t, admin)
			sqltest.KeepsItsLock(t, holder, other, 2*ttl, func() {}, func() {})
			n := closedByServer(t, admin) - before
			t.Logf("the server closed %d connections", n)
			if n < 3 {
				t.Errorf("the server closed %d connections: nothing is tested", n)
			}
		})
	}
}

// closedByServer returns how many connections the server has given up so far.
func closedByServer(t *testing.T, admin *sql.DB) (n int) {
	t.Helper()
	var name string
	if err := admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Aborted_clients'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestProxyDropsConnections has something between client and server that breaks all
// connections ten times a second, or loses answers with them.
func TestProxyDropsConnections(t *testing.T) {
	server, _ := shared.Use(t)
	const ttl = 3 * time.Second
	b := sqltest.Prepared(t, mysqlhold.New(newDB(t, server.Name), nil))
	server.KeepsItsLockThroughDrops(t, 3*ttl, func(t *testing.T, addr string) *holdfast.Locker {
		return holdfast.New(sqltest.Prepared(t, mysqlhold.New(newDB(t, onLoopback(addr)), nil)), &holdfast.Options{TTL: ttl})
	}, holdfast.New(b, nil))
}
