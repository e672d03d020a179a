//go:build unix

// Package sqltest starts real database servers for tests.
//
// A server listens on the loopback or on a socket in its own temporary folder,
// keeps its data there, and ends with its test. Where the server's programs are
// missing, the test is skipped, or fails if the environment variable CI is set.
package sqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// PostgreSQL starts a PostgreSQL server for t and returns a pool of connections
// to its empty database.
func PostgreSQL(t testing.TB) *sql.DB {
	t.Helper()
	_, db := StartPostgreSQL(t)
	return db
}

// StartPostgreSQL is PostgreSQL, and returns the URL of the database too. settings are
// "name=value".
func StartPostgreSQL(t testing.TB, settings ...string) (at string, db *sql.DB) {
	t.Helper()
	s := Start(t, RunPostgreSQL, settings...)
	return s.Name, connect(t, s.Driver, s.Name)
}

// PgBouncer starts a pooler in transaction mode before the server at url, which
// StartPostgreSQL returned, and returns the URL of the same database behind it.
func PgBouncer(t testing.TB, at string) string {
	t.Helper()
	_, pooled := StartPgBouncer(t, at)
	return pooled
}

// StartPgBouncer is PgBouncer, and returns the pooler too, which a test may kill.
func StartPgBouncer(t testing.TB, at string) (s *Server, pooled string) {
	t.Helper()
	daemon := program("/usr/sbin/pgbouncer", "pgbouncer")
	if daemon == "" {
		missing(t, fmt.Errorf("PgBouncer (Debian: apt-get install pgbouncer): %w", ErrMissing))
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s = newServer(t, "postgres")
	users, config := filepath.Join(s.dir, "users"), filepath.Join(s.dir, "ini")
	for name, text := range map[string]string{users: `"test" ""`, config: fmt.Sprintf(`
[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 5
server_login_retry = 1
`, u.Hostname(), u.Port(), port, users)} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	s.program, s.args, s.polite = daemon, []string{"-q", config}, syscall.SIGINT
	s.Driver, s.Name = "pgx", u.String()+"&default_query_exec_mode=exec"
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	return s, u.String()
}

// MariaDB starts a MariaDB server for t and returns a pool of connections to its
// empty database.
func MariaDB(t testing.TB) *sql.DB {
	t.Helper()
	_, db := StartMariaDB(t)
	return db
}

// StartMariaDB is MariaDB, and returns the name of the database for the driver too.
// options are those of the server.
func StartMariaDB(t testing.TB, options ...string) (dsn string, db *sql.DB) {
	t.Helper()
	await.NotShort(t, "needs a database")
	s := bind(t)(makeMariaDB())
	return startMySQL(t, s, mariadbd(), options)
}

// MySQLEnv names the environment variable with the path of a mysqld of MySQL.
const MySQLEnv = "HOLDFAST_MYSQL"

// StartMySQL is StartMariaDB with the server that MySQLEnv names; without it MariaDB
// starts, and oracle is false.
func StartMySQL(t testing.TB, options ...string) (dsn string, db *sql.DB, oracle bool) {
	t.Helper()
	daemon := os.Getenv(MySQLEnv)
	if daemon == "" {
		dsn, db = StartMariaDB(t, options...)
		return dsn, db, false
	}
	await.NotShort(t, "needs a database")
	dsn, db = startMySQL(t, bind(t)(makeMySQL(daemon)), daemon, append(options, onlyClassic()...))
	return dsn, db, true
}

// startMySQL starts a server that listens on its socket only, unless options say more.
func startMySQL(t testing.TB, s *Server, daemon string, options []string) (dsn string, db *sql.DB) {
	t.Helper()
	if err := s.serveMySQL(daemon, append([]string{"--skip-networking"}, options...)); err != nil {
		t.Fatal(err)
	}
	return s.Name, connect(t, s.Driver, s.Name)
}

// program returns the last file that matches pattern, or what PATH has, or "".
func program(pattern, name string) string {
	if found, _ := filepath.Glob(pattern); len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1]
	}
	path, _ := exec.LookPath(name)
	return path
}

// missing skips t, or fails it where the environment variable CI is set.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Start starts a server for t by run, which is RunPostgreSQL, RunMariaDB or RunMySQL. settings are
// what run takes.
func Start(t testing.TB, run func(settings ...string) (*Server, error), settings ...string) *Server {
	t.Helper()
	await.NotShort(t, "needs a database")
	return bind(t)(run(settings...))
}

// newServer makes a server that t closes.
func newServer(t testing.TB, packageUser string) *Server {
	t.Helper()
	return bind(t)(makeServer(packageUser))
}

// bind has t close a server, and show its log if t failed.
func bind(t testing.TB) func(*Server, error) *Server {
	return func(s *Server, err error) *Server {
		t.Helper()
		if errors.Is(err, ErrMissing) {
			missing(t, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Close()
			if t.Failed() {
				t.Logf("%s:\n%s", filepath.Base(s.program), s.Log())
			}
		})
		return s
	}
}

// connect returns a pool, which t closes, once the server answers.
func connect(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := ready(db); err != nil {
		t.Fatalf("%s does not answer: %v", driver, err)
	}
	return db
}
