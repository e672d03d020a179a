package pgtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestDoctorNamesOldTransactions has doctor find a session and a prepared transaction for which
// the server keeps old versions of rows. A user without the right to see the session is told so.
func TestDoctorNamesOldTransactions(t *testing.T) {
	u, err := url.Parse(database(t))
	if err != nil {
		t.Fatal(err)
	}
	db := newDB(t, u.String())
	exec := func(on interface {
		Exec(query string, args ...any) (sql.Result, error)
	}, statement string,
	) {
		t.Helper()
		if _, err := on.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	sqltest.Prepared(t, pghold.NewDB(db, nil))
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: u.Host, Name: "PostgreSQL", Backend: "postgresql", URL: func(addr string) string {
		return "postgres://test@" + addr + u.Path + "?sslmode=disable"
	}})
	tool.Start("doctor", "-v", "--fail-on", "never").Want(0, "ok       transactions: no transaction in this database is open for 60 s or longer")
	exec(db, "DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN; GRANT SELECT, INSERT, UPDATE ON holdfast_locks TO blind")
	var pid int
	if err := oldTransaction(t, db).QueryRow("SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	blind := tool.Start("doctor", "--fail-on", "never", "--url", "postgres://blind@"+u.Host+u.Path+"?sslmode=disable")
	blind.Want(0, "unknown  transactions\n", "the user may not see the transactions of ", "GRANT pg_read_all_stats")
	prepared, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	exec(prepared, "INSERT INTO holdfast_locks (name, token, since, expires) VALUES ('prepared', 1, now(), 'epoch'); PREPARE TRANSACTION 'forgotten'")
	_ = prepared.Rollback() // the session has no transaction any more
	t.Cleanup(func() { exec(newDB(t, u.String()), "ROLLBACK PREPARED 'forgotten'") })
	exec(db, "DO $$ BEGIN FOR i IN 1..100001 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
	tool.Start("doctor", "--fail-on", "never").Want(0, "warning  transactions\n", fmt.Sprintf("the transaction of pid %d (application ", pid), `role "test", idle in transaction), open for `,
		`the prepared transaction "forgotten" of role "test"`, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid), "idle_in_transaction_session_timeout")
}
