// Package shedlocktest shares locks in PostgreSQL, in MariaDB or MySQL, and in Redis with
// ShedLock.
package shedlocktest

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
)

// workerVar is the store of a worker process, with its database after a space.
const workerVar = "HOLDFAST_E2E_SHEDLOCK"

func TestMain(m *testing.M) {
	if at := os.Getenv(workerVar); at != "" {
		if err := work(at); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// work holds the lock "job" until the input ends.
func work(at string) error {
	name, dsn, _ := strings.Cut(at, " ")
	db, err := sql.Open(name, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock, err := holdfast.New(backend(name, db), &holdfast.Options{TTL: ttl}).Lock(ctx, "job")
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return lock.Unlock()
}

// table is a Backend that can make its table.
type table interface {
	driver.Backend
	sqltest.Store
}

// backend returns a Backend over the table shedlock of a database.
func backend(name string, db *sql.DB) table {
	if name == "pgx" {
		return pghold.NewDB(db, &pghold.Options{Layout: pghold.ShedLock})
	}
	return mysqlhold.New(db, &mysqlhold.Options{Layout: mysqlhold.ShedLock})
}

// store is a database that both libraries can reach.
type store struct {
	name, dsn string // for database/sql
	url       string // for Java
	left      string // a query for how long a name stays taken, in µs
	db        *sql.DB
}

// createTable replaces the table by the one that ours makes.
func (s *store) createTable(t *testing.T) {
	t.Helper()
	s.exec(t, "DROP TABLE shedlock")
	sqltest.Prepared(t, backend(s.name, s.db))
}

// stores starts the databases. The tables are those of ShedLock's documentation.
func stores(t *testing.T) map[string]*store {
	t.Helper()
	at, db := sqltest.StartPostgreSQL(t)
	pg := &store{"pgx", at, "jdbc:postgresql://" + strings.Replace(strings.TrimPrefix(at, "postgres://test@"), "?", "?user=test&", 1), "SELECT (EXTRACT(EPOCH FROM lock_until - timezone('utc', clock_timestamp())) * 1000000)::bigint FROM shedlock WHERE name = $1", db}
	pg.exec(t, "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))")

	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dsn, db, _ := sqltest.StartMySQL(t, "--skip-networking=0", "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port), "--default-time-zone=-02:30")
	my := &store{"mysql", dsn, fmt.Sprintf("jdbc:mariadb://127.0.0.1:%d/test?user=java&password=java&allowPublicKeyRetrieval=true", port), "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), lock_until) FROM shedlock WHERE name = ?", db}
	for _, statement := range []string{
		"CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
		"CREATE USER 'java'@'localhost' IDENTIFIED BY 'java'", "GRANT ALL ON test.* TO 'java'@'localhost'",
		"CREATE USER 'java'@'127.0.0.1' IDENTIFIED BY 'java'", "GRANT ALL ON test.* TO 'java'@'127.0.0.1'",
	} {
		my.exec(t, statement)
	}
	return map[string]*store{"PostgreSQL": pg, "MySQL": my}
}

func (s *store) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := s.db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// locker returns a Locker over a pool of its own.
func (s *store) locker(t *testing.T) *holdfast.Locker {
	t.Helper()
	db, err := sql.Open(s.name, s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	l := holdfast.New(backend(s.name, db), &holdfast.Options{TTL: ttl})
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

// java starts ShedLock over the URL of a store. Where it was not made ready the test skips, or fails if the
// environment variable CI is set.
func java(t *testing.T, url string) *peer.Process {
	t.Helper()
	jar := filepath.Join(peer.Folder(t), "shedlock", "peer.jar")
	if _, err := os.Stat(jar); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; .ci/interop-shedlock prepares it", err)
		}
		t.Skipf("%v; .ci/interop-shedlock prepares it", err)
	}
	classes := jar + string(os.PathListSeparator) + filepath.Join(filepath.Dir(jar), "lib", "*")
	return peer.Start(t, exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m", "-cp", classes, "holdfast.peer.Main", url))
}
