package anystore

import (
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// postgreSQLRefuses executes a statement that has the server refuse the role app, and one that has
// it let the role in again.
func postgreSQLRefuses(refuse, repair string) func(*testing.T, time.Duration) Refusing {
	return func(t *testing.T, _ time.Duration) Refusing {
		at, db := sqltest.StartPostgreSQL(t)
		exec := func(statement string) {
			t.Helper()
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		exec("CREATE ROLE app LOGIN")
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		open := func(user string) *pghold.Backend {
			as := *u
			as.User = url.User(user)
			pool, err := pgxpool.New(t.Context(), as.String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return pghold.New(pool, nil)
		}
		if err := open(u.User.Username()).CreateTable(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
		return Refusing{
			Open: func() driver.Backend { return open("app") },
			Refuse: func() {
				exec(refuse)
				exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
			},
			Repair: func() { exec(repair) },
		}
	}
}
