package mysqltest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
)

// TestCLIOverSeveralHosts has two servers in one URL: the first is a replica, then the
// primary, then dead.
func TestCLIOverSeveralHosts(t *testing.T) {
	a, b := sqltest.Start(t, sqltest.RunMySQL), sqltest.Start(t, sqltest.RunMySQL)
	onA, onB := newDB(t, a.Name), newDB(t, b.Name)
	for _, admin := range []*sql.DB{onA, onB} {
		execute(t, admin, "CREATE USER app@'%' IDENTIFIED BY 's3/cr@t'", "GRANT ALL ON test.* TO app@'%'")
	}
	hosts := a.Addr() + "," + b.Addr()
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: a.Addr(), Name: "MySQL", Backend: "mysql", URL: func(string) string {
		return "mysql://app:s3%2Fcr%40t@" + hosts + "/test"
	}})
	lock := func(flags ...string) *storecli.Program {
		return tool.Start(append(append([]string{"run", "-n"}, flags...), "job", "--", "true")...)
	}

	// A user who may write on a replica, as test, must not do so.
	execute(t, onA, "SET GLOBAL read_only = ON")
	lock("--url", "mysql://test@"+hosts+"/test?create=true").Want(0)
	if hasTable(t, onA) || !hasTable(t, onB) {
		t.Error("got a table on the replica, or none on the primary")
	}
	lock().Want(0)
	tool.Start("doctor", "-v", "--fail-on", "never").Want(0, "read_only is OFF")

	held := tool.Start("run", "--ttl", "20s", "move", "--", "sh", "-c", "echo held; read -r line; true")
	held.Await("held")
	moves(t, onA, onB)
	held.End()
	held.Want(0)

	execute(t, onA, "SET GLOBAL read_only = ON")
	lock().Want(69, a.Addr()+": the server takes no writes: read_only is ON; "+b.Addr()+": the server takes no writes: read_only is ON")
	execute(t, onB, "SET GLOBAL read_only = OFF")
	a.Kill()
	lock().Want(0)
	wrong := lock("--url", "mysql://app:wr0ng@"+hosts+"/test")
	wrong.Want(77, "cannot connect to "+a.Addr()+": connection refused; "+b.Addr()+": Error 1045", "Access denied")
	wrong.Hides("wr0ng@")
}

// moves makes a the primary in place of b, with the row of the lock move as a replica has
// it, and waits for its renewal there.
func moves(t *testing.T, a, b *sql.DB) {
	t.Helper()
	execute(t, b, "SET GLOBAL read_only = ON")
	_, create := row(t, b, "SHOW CREATE TABLE holdfast_locks")
	var owner, expires string
	if err := b.QueryRow("SELECT owner, expires FROM holdfast_locks WHERE name = 'move'").Scan(&owner, &expires); err != nil {
		t.Fatal(err)
	}
	execute(t, a, "SET GLOBAL read_only = OFF", create)
	if _, err := a.Exec("INSERT INTO holdfast_locks (name, owner, note, token, since, expires, waiters) VALUES ('move', ?, '', 1, UTC_TIMESTAMP(6), ?, '')", owner, expires); err != nil {
		t.Fatal(err)
	}
	await.Until(t, 20*time.Second, "the lock is renewed on the new primary", func() bool {
		_, now := row(t, a, "SELECT name, CAST(expires AS CHAR) FROM holdfast_locks WHERE name = 'move'")
		return now > expires
	})
}

// row returns the two columns of the first row that a query finds.
func row(t *testing.T, db *sql.DB, query string) (first, second string) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&first, &second); err != nil {
		t.Fatal(err)
	}
	return first, second
}

func hasTable(t *testing.T, db *sql.DB) bool {
	t.Helper()
	_, n := row(t, db, "SELECT '', COUNT(*) FROM information_schema.tables WHERE table_name = 'holdfast_locks'")
	return n == "1"
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
