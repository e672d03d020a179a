package anystore

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

func postgreSQLPage(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL)
	d := &pages.Database{Reader: pages.NewReader(t, "localhost:5432", server.Addr()), Page: "docs/postgresql.md", Denied: "permission denied"}
	d.Admin = pages.Pool(t, server.Driver, server.Name)
	d.Exec("CREATE DATABASE shop")
	at := strings.Replace(server.Name, "/postgres?", "/shop?", 1)
	d.Admin = pages.Pool(t, server.Driver, at)
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d.Run(pghold.New(pool, nil).Schema())
	shop := pages.Pool(t, server.Driver, strings.Replace(at, "test@", "shop:secret@", 1))
	d.LockTx(shop, pghold.NewDB(shop, nil).LockSQLTx)

	if err := pghold.New(pool, &pghold.Options{Layout: pghold.ShedLock}).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Shares(`pghold\.Locker\(pool, nil\)`, "holdfast.New(pghold.New(pool, &pghold.Options{Layout: pghold.ShedLock}), nil)")
}
