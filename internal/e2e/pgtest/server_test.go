package pgtest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// shared is the server of all tests that do not harm it.
var shared = &sqltest.Shared{Run: sqltest.RunPostgreSQL, Settings: append(quiet(), "deadlock_timeout=100ms", "max_connections=300", "max_prepared_transactions=2")}

// quiet has a server keep its log for itself.
func quiet() []string { return []string{"log_min_messages=fatal", "log_min_error_statement=panic"} }

// start returns the URL of the common server, and a pool of connections to it.
func start(t testing.TB) (url string, admin *sql.DB) {
	t.Helper()
	server, admin := shared.Use(t)
	return server.Name, admin
}

// database makes a database of its own for t on the common server, and returns its URL.
func database(t testing.TB) string {
	t.Helper()
	server, admin := start(t)
	name := sqltest.DatabaseName(t)
	for _, statement := range []string{"DROP DATABASE IF EXISTS %s WITH (FORCE)", "CREATE DATABASE %s"} { // for the next run, too
		if _, err := admin.Exec(fmt.Sprintf(statement, pgx.Identifier{name}.Sanitize())); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// newPool returns a pool of at most four connections; change may change its settings.
func newPool(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	for _, fn := range change {
		fn(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newDB(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// listening is options with which a Backend listens on the server at url, under the
// name "ear".
func listening(t testing.TB, url string) *pghold.Options {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "ear"
	return &pghold.Options{Listen: config}
}

// spoil makes a pool lose answers.
func spoil(l *sqltest.Losses) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return l.On(conn), nil
		}
	}
}

// passes takes the lock and releases it, and sends how that went.
func passes(t *testing.T, l *holdfast.Locker) <-chan error {
	got := make(chan error, 1)
	go func() {
		next, err := l.Lock(t.Context(), "job")
		if err == nil {
			err = next.Unlock()
		}
		got <- err
	}()
	return got
}

// quoted returns the name of the database at a URL, for a statement.
func quoted(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		panic(err)
	}
	return pgx.Identifier{strings.TrimPrefix(u.Path, "/")}.Sanitize()
}

// gate is on the way from a client to the server, and keeps what is sent while it is
// closed. A connection of which it keeps something has all that follows kept too.
type gate struct {
	mu     sync.Mutex
	closed bool
	kept   []func()
}

func (g *gate) keep(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil || g.closed { // it is for a request to cancel, which comes too early
			return conn, err
		}
		return &gated{Conn: conn, gate: g}, nil
	}
}

// set closes the gate, or lets pass what is sent from now on.
func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

// send sends what was kept.
func (g *gate) send() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, send := range g.kept {
		send()
	}
	g.kept = nil
}

type gated struct {
	net.Conn
	gate *gate
	late bool // the gate keeps something of it
}

func (c *gated) Write(b []byte) (int, error) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if !c.gate.closed && !c.late {
		return c.Conn.Write(b)
	}
	c.late = true
	b = slices.Clone(b)
	c.gate.kept = append(c.gate.kept, func() {
		c.late = false
		_ = c.SetDeadline(time.Time{})
		_, _ = c.Conn.Write(b)
	})
	return len(b), nil
}

// tracer counts how often rows were looked at.
type tracer struct{ n atomic.Int64 }

func (r *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(q.SQL, "SELECT l.name, coalesce") {
		r.n.Add(1)
	}
	return ctx
}

func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
