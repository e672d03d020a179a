package pgtest

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
)

// The command line tool, built and run as users do.
func TestCLI(t *testing.T) {
	server, admin := start(t)
	u, err := url.Parse(database(t, server, admin))
	if err != nil {
		t.Fatal(err)
	}
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: u.Host, Name: "PostgreSQL", Backend: "postgresql", Shown: storecli.Shown{Rest: true, Granted: true}, URL: func(addr string) string {
		return "postgres://test@" + addr + u.Path + "?sslmode=disable"
	}})
	lock := []string{"run", "-n", "setup", "--", "true"}
	with := func(old, by string) []string {
		return append([]string{"run", "--url", strings.Replace(tool.URL(), old, by, 1)}, lock[1:]...)
	}
	tool.Start(lock...).Want(77, `there is no table "holdfast_locks"`, "CREATE TABLE IF NOT EXISTS", "create=true")
	tool.Start(with("?", "?create=true&")...).Want(0)
	tool.Start(lock...).Want(0)
	tool.Start(with("?", "?table=other&")...).Want(77, `there is no table "other"`)
	tool.Start(with("test@", "nobody@")...).Want(77, `role "nobody" does not exist`)
	tool.Start(with(u.Path, "/absent")...).Want(77, `database "absent" does not exist`)
	tool.Start(with("?", "?no_such_setting=1&")...).Want(77, "no_such_setting")
	tool.Start("doctor", "-v", "--fail-on", "never").Want(0, "ok       pooler: the connection leads to the server itself", "ok       clock: its clock is ", "ok       notifications: ")
	tool.Run(t)
}

// The table of ShedLock is the one that a parameter of the URL asks for.
func TestCLIOverShedLock(t *testing.T) {
	server, admin := start(t)
	at := database(t, server, admin)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: u.Host, Name: "PostgreSQL", Backend: "postgresql", URL: func(addr string) string {
		return "postgres://test@" + addr + u.Path + "?sslmode=disable&layout=shedlock"
	}})
	tool.Start("run", "-n", "job", "--", "true").Want(77, `there is no table "shedlock"`, "lock_until", "create=true")
	tool.Start("run", "-n", "--url", strings.Replace(tool.URL(), "layout=shedlock", "layout=java", 1), "job", "--", "true").Want(64, "neither lease nor shedlock")
	tool.Start("run", "-n", "--url", tool.URL()+"&create=true", "job", "--", "true").Want(0)
	tool.Start("run", "-n", "--url", strings.Replace(tool.URL(), "layout=shedlock", "layout=lease", 1), "job", "--", "true").Want(77, `there is no table "holdfast_locks"`)
	tool.RunShedLock(t, newDB(t, at))
}

// Certificates are verified as the flags say, and TLS is never left out then.
func TestCLIOverTLS(t *testing.T) {
	cert, key := sqltest.Certificate(t, "postgres")
	plain, _ := sqltest.StartPostgreSQL(t, "ssl=on", "ssl_cert_file="+cert, "ssl_key_file="+key)
	u, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: u.Host, Name: "PostgreSQL", Backend: "postgresql", URL: func(addr string) string {
		return "postgres://test@" + addr + "/postgres?create=true"
	}})
	run := func(args ...string) *storecli.Program {
		return tool.Start(append([]string{"run"}, append(args, "job", "--", "true")...)...)
	}
	run("--cacert", cert).Want(0)
	run("--insecure").Want(0, "certificates are not verified")
	run("--cacert", cert, "--sni", "db.example").Want(69, "db.example")
	run("--url", tool.URL()+"&sslmode=verify-full").Want(69, "certificate")
	run("--url", tool.URL()+"&sslmode=verify-full&sslrootcert="+cert).Want(0)
	run("--url", tool.URL()+"&sslmode=disable", "--cacert", cert).Want(64, "sslmode=disable")

	server, _ := start(t) // without TLS
	if u, err = url.Parse(server); err != nil {
		t.Fatal(err)
	}
	run("--url", "postgres://test@"+u.Host+"/postgres", "--cacert", cert).Want(69, "refused TLS")
}

// Behind a pooler waiters are woken by the server itself, which the URL names.
func TestCLIBehindAPooler(t *testing.T) {
	server, admin := start(t)
	direct, err := url.Parse(database(t, server, admin))
	if err != nil {
		t.Fatal(err)
	}
	pooler, err := url.Parse(sqltest.PgBouncer(t, direct.String()))
	if err != nil {
		t.Fatal(err)
	}
	for name, listen := range map[string]string{"named": direct.Host, "off": "off", "not named": ""} {
		t.Run(name, func(t *testing.T) {
			tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: pooler.Host, Name: "PostgreSQL", Backend: "postgresql", URL: func(addr string) string {
				at := "postgres://test@" + addr + direct.Path + "?sslmode=disable&create=true"
				if listen != "" {
					at += "&listen=" + listen
				}
				return at
			}})
			held := tool.Hold("pooled")
			waiting := tool.Start("run", "-v", "pooled", "--", "true")
			waiting.Await(`waiting for lock "pooled"`)
			if listen == direct.Host {
				await.Until(t, 10*time.Second, "a connection listens", func() bool { return subscribed(t, admin) > 0 })
			} else if n := subscribed(t, admin); listen == "off" && n > 0 {
				t.Errorf("%d connections listen, want none", n)
			}
			held.End()
			held.Want(0)
			says := []string{`got lock "pooled"`}
			if listen == "" {
				says = append(says, "leads to a pooler")
			}
			waiting.Want(0, says...)
			finds := []string{"note     pooler\n         the connection leads to a pooler\n", "advisory locks through it are refused", "ok       clock: its clock is "}
			tool.Start("doctor", "-v", "--fail-on", "never").Want(0, append(finds, map[string]string{
				"named": "ok       notifications: notifications are received", "off": "note     notifications\n         notifications are off", "not named": "note     notifications\n         notifications do not come",
			}[name])...)
		})
	}
}

// subscribed counts the connections to the server that wait for notifications.
func subscribed(t *testing.T, admin *sql.DB) (n int) {
	t.Helper()
	if err := admin.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
