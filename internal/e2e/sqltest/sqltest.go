//go:build unix

// Package sqltest starts real database servers for tests.
//
// A server listens on the loopback or on a socket in its own temporary folder,
// keeps its data there, and ends with its test. Where the server's programs are
// missing, the test is skipped, or fails if the environment variable CI is set.
package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// PostgreSQL starts a PostgreSQL server for t and returns a pool of connections
// to its empty database.
func PostgreSQL(t testing.TB) *sql.DB {
	t.Helper()
	initdb := program("/usr/lib/postgresql/*/bin/initdb", "initdb")
	if initdb == "" {
		missing(t, "PostgreSQL (initdb and postgres)", "postgresql")
	}
	s := newServer(t, "postgres")
	data := filepath.Join(s.dir, "data")
	s.run(initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s.start(syscall.SIGINT, filepath.Join(filepath.Dir(initdb), "postgres"),
		"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-c", "fsync=off",
		"-c", "unix_socket_directories=", "-c", "max_connections=150")
	return s.connect("pgx", fmt.Sprintf("postgres://test@127.0.0.1:%d/postgres?sslmode=disable", port))
}

// MariaDB starts a MariaDB server for t and returns a pool of connections to its
// empty database.
func MariaDB(t testing.TB) *sql.DB {
	t.Helper()
	daemon, install := program("/usr/sbin/mariadbd", "mariadbd"), program("/usr/bin/mariadb-install-db", "mariadb-install-db")
	if daemon == "" || install == "" {
		missing(t, "MariaDB (mariadbd and mariadb-install-db)", "mariadb-server")
	}
	s := newServer(t, "mysql")
	data, socket := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "s")
	s.run(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--user="+s.user)
	s.start(syscall.SIGTERM, daemon, "--no-defaults", "--datadir="+data, "--socket="+socket, "--skip-networking",
		"--user="+s.user, "--max-connections=150", "--back-log=400", "--innodb-flush-log-at-trx-commit=0",
		"--pid-file="+filepath.Join(s.dir, "pid"))
	setup := s.connect("mysql", "root@unix("+socket+")/")
	if _, err := setup.Exec("CREATE DATABASE test"); err != nil {
		t.Fatal(err)
	}
	return s.connect("mysql", "root@unix("+socket+")/test")
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

func missing(t testing.TB, what, debian string) {
	t.Helper()
	line := fmt.Sprintf("%s is not installed; install it (Debian: apt-get install %s) to run this test", what, debian)
	if os.Getenv("CI") != "" {
		t.Fatal(line)
	}
	t.Skip(line)
}

// server is one process with a folder of its own.
type server struct {
	testing.TB
	dir  string
	user string               // as whom it runs
	as   *syscall.SysProcAttr // the same, or nil for the user of the test
}

// newServer makes the folder. Database servers refuse to run as root, so that
// root runs them as the user of their package.
func newServer(t testing.TB, packageUser string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-sql-") // not t.TempDir, into which another user cannot look
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{TB: t, dir: dir, as: &syscall.SysProcAttr{}}
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s.user = self.Username
	if self.Uid != "0" {
		return s
	}
	other, err := user.Lookup(packageUser)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(other.Uid)
	gid, _ := strconv.Atoi(other.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	s.user = packageUser
	s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = s.as
	return cmd
}

// run runs a program to its end.
func (s *server) run(name string, args ...string) {
	s.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// start starts the server, and stops it with t: by the signal polite, then by
// force.
func (s *server) start(polite os.Signal, name string, args ...string) {
	s.Helper()
	var log bytes.Buffer
	cmd := s.command(name, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	done, err := child.Start(cmd, func() { _ = cmd.Wait() }) // how it ended is in its log
	if err != nil {
		s.Fatalf("start %s: %v", name, err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Signal(polite)
		force := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		<-done
		force.Stop()
		if s.Failed() {
			s.Logf("%s:\n%s", filepath.Base(name), log.String())
		}
	})
}

// connect returns a pool once the server answers.
func (s *server) connect(driver, dsn string) *sql.DB {
	s.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = db.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return db
		}
		if ctx.Err() != nil {
			s.Fatalf("%s does not answer: %v", driver, err)
		}
		time.Sleep(20 * time.Millisecond) // a server that starts sends no event
	}
}
