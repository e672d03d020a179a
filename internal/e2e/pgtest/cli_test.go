package pgtest

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
)

// The command line tool in front of PostgreSQL, built and run as users do. Package storestest has
// what it does on every store.
func TestCLI(t *testing.T) {
	_, admin := start(t)
	u, err := url.Parse(database(t))
	if err != nil {
		t.Fatal(err)
	}
	tool := storecli.New(t, storecli.Store{Network: "tcp", Addr: u.Host, URL: func(addr string) string {
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
	tool.Start("doctor", "-v", "--fail-on", "never").Want(0, "ok       clock: the clock of the server is ", "ok       notifications: ")
	t.Run("Password", func(t *testing.T) { withPassword(t, tool.In(t), admin, u) })
}

// withPassword: a role whose password the server verifies has locks, also where the first
// host of the URL is down. The password is nowhere shown.
func withPassword(t *testing.T, tool *storecli.Tool, admin *sql.DB, u *url.URL) {
	makeApp(t, admin, u, "host all app 127.0.0.1/32 scram-sha-256")
	lock := func(who, hosts string) *storecli.Program {
		return tool.Start("run", "-n", "--url", "postgres://"+who+"@"+hosts+u.Path+"?sslmode=disable", "secret", "--", "true")
	}
	const down = "127.0.0.1:1"
	for _, hosts := range []string{u.Host, down + "," + u.Host} {
		lock("app:s3%2Fcr%40t", hosts).Want(0)
		for _, who := range []string{"app:wr0ng", "app"} {
			wrong := lock(who, hosts)
			wrong.Want(77, u.Host, `password authentication failed for user "app"`)
			wrong.Hides("wr0ng")
		}
	}
	t.Setenv("PGPASSWORD", "s3/cr@t")
	lock("app", u.Host).Want(0)
}

// makeApp makes the role app, which may log in by rules alone, and not without a password
// or a certificate.
func makeApp(t *testing.T, admin *sql.DB, u *url.URL, rules string) {
	t.Helper()
	var file string
	if err := admin.QueryRow("SHOW hba_file").Scan(&file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte(rules+"\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"DROP ROLE IF EXISTS app; SET password_encryption = 'scram-sha-256'; CREATE ROLE app LOGIN PASSWORD 's3/cr@t'",
		"GRANT pg_read_all_data, pg_write_all_data TO app",
		"SELECT pg_reload_conf()",
	} {
		if _, err := admin.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, 10*time.Second, "the server has read its rules again", func() bool {
		conn, err := pgx.Connect(t.Context(), "postgres://app@"+u.Host+u.Path)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err != nil
	})
}

// The table of ShedLock is the one that a parameter of the URL asks for.
func TestCLIOverShedLock(t *testing.T) {
	at := database(t)
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
	plain, admin := sqltest.StartPostgreSQL(t, "ssl=on", "ssl_ca_file="+cert, "ssl_cert_file="+cert, "ssl_key_file="+key)
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

	makeApp(t, admin, u, "hostssl all app 127.0.0.1/32 trust clientcert=verify-ca\nhostnossl all app 127.0.0.1/32 reject")
	app := "postgres://app@" + u.Host + "/postgres"
	run("--url", app, "--cacert", cert, "--cert", cert, "--key", key).Want(0)
	run("--url", app, "--cacert", cert).Want(77, "requires a valid client certificate")

	server, _ := start(t) // without TLS
	if u, err = url.Parse(server); err != nil {
		t.Fatal(err)
	}
	run("--url", "postgres://test@"+u.Host+"/postgres", "--cacert", cert).Want(69, "refused TLS")
}

// Behind a pooler waiters are woken by the server itself, which the URL names.
func TestCLIBehindAPooler(t *testing.T) {
	_, admin := start(t)
	direct, err := url.Parse(database(t))
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
			finds := map[string]string{
				"named": "ok       notifications: waiters receive notifications", "off": "note     notifications\n         notifications are off", "not named": "note     notifications\n         the connection leads to a pooler",
			}
			tool.Start("doctor", "-v", "--fail-on", "never").Want(0, finds[name], "ok       clock: the clock of the server is ")
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
