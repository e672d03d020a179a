package anystore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

func mySQLPage(t *testing.T, run func(...string) (*sqltest.Server, error)) {
	server := sqltest.Start(t, run)
	d := &pages.Database{Reader: pages.NewReader(t, "localhost:3306", server.Addr()), Page: "docs/mysql.md", Denied: "command denied"}
	d.Admin = pages.Pool(t, server.Driver, server.Name)
	d.Exec("CREATE DATABASE shop")
	d.Admin = pages.Pool(t, server.Driver, strings.TrimSuffix(server.Name, "/test")+"/shop")
	d.Run(mysqlhold.New(d.Admin, nil).Schema())
	shop := pages.Pool(t, server.Driver, "shop:secret@tcp("+server.Addr()+")/shop")
	d.LockTx(shop, mysqlhold.New(shop, nil).LockTx)
	d.Exec("CREATE USER viewer IDENTIFIED BY 'secret'")
	d.Exec("GRANT SELECT ON shop.holdfast_locks TO viewer")
	viewer := mysqlhold.New(pages.Pool(t, server.Driver, "viewer:secret@tcp("+server.Addr()+")/shop"), nil)
	for _, err := range admin.New(viewer).List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Errorf("a user who may only read: %v", err)
		}
	}

	if err := mysqlhold.New(d.Admin, &mysqlhold.Options{Layout: mysqlhold.ShedLock}).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Shares(`mysqlhold\.Locker\(db, nil\)`, "holdfast.New(mysqlhold.New(db, &mysqlhold.Options{Layout: mysqlhold.ShedLock}), nil)")
}
