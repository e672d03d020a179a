package anystore

import (
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// mariaDBWithAnotherPassword changes the password of its clients.
func mariaDBWithAnotherPassword(t *testing.T, _ time.Duration) Refusing {
	server := sqltest.Start(t, sqltest.RunMariaDB, "--bind-address=127.0.0.1")
	db, err := sql.Open(server.Driver, server.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE USER app IDENTIFIED BY 'secret'")
	exec("GRANT ALL ON test.* TO app")
	if err := mysqlhold.New(db, nil).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return Refusing{
		Open: func() driver.Backend {
			pool, err := sql.Open("mysql", "app:secret@tcp("+server.Addr()+")/test?interpolateParams=true")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pool.Close() })
			return mysqlhold.New(pool, nil)
		},
		Refuse: func() {
			exec("ALTER USER app IDENTIFIED BY 'other'")
			exec("KILL CONNECTION USER app")
		},
		Repair: func() { exec("ALTER USER app IDENTIFIED BY 'secret'") },
	}
}
