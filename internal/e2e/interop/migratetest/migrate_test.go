// Package migratetest shares advisory locks in PostgreSQL and in MariaDB or MySQL with
// golang-migrate and goose.
package migratetest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
)

func TestMain(m *testing.M) {
	if arg := os.Getenv(holderVar); arg != "" {
		if err := hold(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// timeout is how long a test waits for a lock that it is sure to get. golang-migrate gives
// up after ten seconds on MySQL.
const timeout = 20 * time.Second

// advisoryLock is what both modules return.
type advisoryLock interface {
	Err() error
	Unlock() error
}

// side is a tool beside Holdfast, on one database.
type side struct {
	tool   tool
	theirs holder // the tool in a process of its own
	ours   holder
	lock   func(ctx context.Context) (advisoryLock, error)
	try    func(ctx context.Context) (advisoryLock, error)
	cut    func()      // closes the last connection of lock
	asks   func() bool // says that the tool asks for a lock, or waits for it
	stall  string      // a statement that waits until the gate is opened
	gate   *sql.Conn   // keeps that statement waiting
	close  string      // closes the gate
	open   string      // opens it
	stalls func() bool // says that a statement waits at the gate
}

// TestMigrate has the real tools and Holdfast wait for each other's locks.
func TestMigrate(t *testing.T) {
	if got := lock.DefaultLockID; got != pghold.GooseID {
		t.Errorf("GooseID is %d, want goose's, %d", pghold.GooseID, got)
	}
	at, admin := sqltest.StartPostgreSQL(t)
	t.Run("golang-migrate by URL", func(t *testing.T) {
		url := newPostgreSQL(t, at, admin, "one")
		share(t, postgres(t, url, admin, "url", pghold.MigrateURLID("public", "schema_migrations", "one")))
	})
	t.Run("golang-migrate by instance", func(t *testing.T) {
		url := newPostgreSQL(t, at, admin, "two")
		share(t, postgres(t, url, admin, "instance", pghold.MigrateID("public", "schema_migrations", "two")))
	})
	t.Run("goose", func(t *testing.T) {
		url := newPostgreSQL(t, at, admin, "three")
		share(t, postgres(t, url, admin, "goose", pghold.GooseID))
	})
	t.Run("golang-migrate on MySQL", func(t *testing.T) { share(t, onMySQL(t)) })
}

// share runs the cases.
func share(t *testing.T, s *side) {
	t.Run("they hold", func(t *testing.T) { theyHold(t, s) })
	t.Run("we hold", func(t *testing.T) { weHold(t, s) })
	t.Run("they die", func(t *testing.T) { theyDie(t, s) })
	t.Run("we die", func(t *testing.T) { weDie(t, s) })
	t.Run("we are cut off", func(t *testing.T) { weAreCutOff(t, s) })
}

// migrate runs a migration beside the test.
func (s *side) migrate(statement string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.tool.migrate(statement) }()
	return done
}

func (s *side) mustLock(t *testing.T) advisoryLock {
	t.Helper()
	l, err := s.lock(await.Context(t, timeout))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *side) mustBeBusy(t *testing.T) {
	t.Helper()
	if _, err := s.try(await.Context(t, timeout)); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryAdvisory beside them: got %v, want ErrBusy", err)
	}
}

func mustUnlock(t *testing.T, l advisoryLock) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// theyHold has ours wait until a migration has ended.
func theyHold(t *testing.T, s *side) {
	exec := func(statement string) {
		if _, err := s.gate.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(s.close)
	migrated := s.migrate(s.stall)
	await.Until(t, timeout, "the migration is under way", s.stalls)
	s.mustBeBusy(t)
	locked := make(chan advisoryLock, 1)
	go func() { locked <- s.mustLock(t) }()
	await.Never(t, 1500*time.Millisecond, "granted beside a migration", func() bool { return len(locked) > 0 })
	exec(s.open)
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	mustUnlock(t, <-locked)
}

// weHold has a migration wait until ours is unlocked.
func weHold(t *testing.T, s *side) {
	l := s.mustLock(t)
	migrated := s.migrate("SELECT 1;")
	await.Until(t, timeout, "they ask for the lock", s.asks)
	await.Never(t, time.Second, "they migrate beside ours", func() bool { return len(migrated) > 0 })
	mustUnlock(t, l)
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// weAreCutOff ends our connection: they are granted it, and ours says that it is lost.
func weAreCutOff(t *testing.T, s *side) {
	l := s.mustLock(t)
	migrated := s.migrate("SELECT 1;")
	await.Until(t, timeout, "they ask for the lock", s.asks)
	s.cut()
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	await.Until(t, 5*time.Second, "the loss is noticed", func() bool { return l.Err() != nil })
	if err := l.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock after the loss: got %v, want ErrLost", err)
	}
}

// newPostgreSQL makes a database, and returns its URL.
func newPostgreSQL(t *testing.T, at string, admin *sql.DB, name string) string {
	t.Helper()
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// dialer keeps the last connection that was made with it.
type dialer struct{ last atomic.Pointer[net.Conn] }

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		d.last.Store(&conn)
	}
	return conn, err
}

func (d *dialer) cut() { _ = (*d.last.Load()).Close() }

// gateOf returns a connection of its own.
func gateOf(t *testing.T, driver, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// finds returns a function that says whether a query finds something.
func finds(t *testing.T, db *sql.DB, query string) func() bool {
	return func() bool {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM " + query).Scan(&n); err != nil {
			t.Error(err)
		}
		return n > 0
	}
}

func postgres(t *testing.T, url string, admin *sql.DB, tool string, id int64) *side {
	t.Helper()
	ours, mortal := &dialer{}, must(pgx.ParseConfig(url))(t)
	mortal.DialFunc = ours.dial
	trying := must(pgx.ParseConfig(url))(t)
	const gate = 7
	of := fmt.Sprintf("pg_stat_activity WHERE datname = '%s' AND pid <> pg_backend_pid()", mortal.Database)
	return &side{
		cut: ours.cut, tool: toolOf(tool, url),
		theirs: holder{who: tool, url: url}, ours: holder{"pghold", url, strconv.FormatInt(id, 10)},
		lock:   func(ctx context.Context) (advisoryLock, error) { return pghold.LockAdvisory(ctx, mortal, id) },
		try:    func(ctx context.Context) (advisoryLock, error) { return pghold.TryAdvisory(ctx, trying, id) },
		asks:   finds(t, admin, of+" AND query LIKE 'SELECT pg_%advisory_lock($1)%'"),
		stall:  fmt.Sprintf("SELECT pg_advisory_lock(%d);", gate),
		gate:   gateOf(t, "pgx", url),
		close:  fmt.Sprintf("SELECT pg_advisory_lock(%d)", gate),
		open:   fmt.Sprintf("SELECT pg_advisory_unlock(%d)", gate),
		stalls: finds(t, admin, fmt.Sprintf("pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = %d AND classid = 0", gate)),
	}
}

func onMySQL(t *testing.T) *side {
	t.Helper()
	dsn, admin, _ := sqltest.StartMySQL(t)
	connector := func(d *dialer) sqldriver.Connector {
		config := must(mysql.ParseDSN(dsn))(t)
		config.Logger, config.DialFunc = &mysql.NopLogger{}, d.dial
		return must(mysql.NewConnector(config))(t)
	}
	ours := &dialer{}
	mortal, trying := connector(ours), connector(&dialer{})
	url, name := "mysql://"+dsn, mysqlhold.MigrateName("test", "schema_migrations")
	waits := "information_schema.processlist WHERE state = 'User lock' AND info LIKE "
	return &side{
		cut: ours.cut, tool: toolOf("url", url),
		theirs: holder{who: "url", url: url}, ours: holder{"mysqlhold", dsn, name},
		lock:   func(ctx context.Context) (advisoryLock, error) { return mysqlhold.LockAdvisory(ctx, mortal, name) },
		try:    func(ctx context.Context) (advisoryLock, error) { return mysqlhold.TryAdvisory(ctx, trying, name) },
		asks:   finds(t, admin, waits+"'%GET_LOCK(%10)%'"),
		stall:  "SELECT GET_LOCK('gate', 20);",
		gate:   gateOf(t, "mysql", dsn),
		close:  "SELECT GET_LOCK('gate', 0)",
		open:   "SELECT RELEASE_LOCK('gate')",
		stalls: finds(t, admin, waits+"'%gate%'"),
	}
}

// must returns what a call returned, and ends the test if that failed.
func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
