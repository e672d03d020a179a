package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// id is an advisory lock.
const id = -4097083626

// settings returns how to connect to the server at url.
func settings(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// mortal returns settings for one connection, and a function that closes that as the end
// of the process would: there is none after it, which could cancel a statement.
func mortal(t *testing.T, url string) (config *pgx.ConnConfig, die func()) {
	t.Helper()
	config = settings(t, url)
	var only atomic.Pointer[net.Conn]
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if only.Load() != nil {
			return nil, errors.New("the process is dead")
		}
		conn, err := dial(ctx, network, addr)
		if err == nil {
			only.Store(&conn)
		}
		return conn, err
	}
	return config, func() { _ = (*only.Load()).Close() }
}

// advisory is the lock id, by the sessions of config.
func advisory(admin *sql.DB, config *pgx.ConnConfig) sqltest.Advisory {
	return sqltest.Advisory{
		Try: func(ctx context.Context) (sqltest.AdvisoryLock, error) {
			return sqltest.Taken(pghold.TryAdvisory(ctx, config, id))
		},
		Lock: func(ctx context.Context) (sqltest.AdvisoryLock, error) {
			return sqltest.Taken(pghold.LockAdvisory(ctx, config, id))
		},
		// In pg_locks waiters are missing for a moment whenever their wait begins again.
		Sessions: func(t *testing.T) (held, waiting int) {
			t.Helper()
			const query = "SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted), (SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%PERFORM pg_advisory_lock%' AND pid <> pg_backend_pid())"
			if err := admin.QueryRow(query).Scan(&held, &waiting); err != nil {
				t.Fatal(err)
			}
			return held, waiting
		},
		Late: 5 * time.Second,
	}
}

// terminate ends the sessions that hold an advisory lock.
func terminate(t *testing.T, admin *sql.DB) {
	t.Helper()
	if _, err := admin.Exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"); err != nil {
		t.Fatal(err)
	}
}

func TestAdvisory(t *testing.T) {
	server, admin := start(t)
	url := database(t)
	config := settings(t, url)
	a := advisory(admin, config)
	a.Test(t)

	t.Run("ids", func(t *testing.T) {
		lock, ctx := a.Take(t), await.Context(t, 10*time.Second)
		for what, take := range map[string]func() (*pghold.AdvisoryLock, error){
			"another id":       func() (*pghold.AdvisoryLock, error) { return pghold.TryAdvisory(ctx, config, id+1) },
			"another database": func() (*pghold.AdvisoryLock, error) { return pghold.TryAdvisory(ctx, settings(t, server), id) },
		} {
			other, err := take()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := other.Unlock(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})

	t.Run("waiter dies", func(t *testing.T) {
		lock := a.Take(t)
		waiter, die := mortal(t, url)
		got := a.Queue(t.Context(), t, advisory(admin, waiter).Lock)
		die()
		if o := <-got; o.Err == nil {
			t.Error("granted over a connection that is closed")
		}
		await.Until(t, 5*time.Second, "nobody waits", func() bool {
			held, waiting := a.Sessions(t)
			return held == 1 && waiting == 0
		})
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})

	t.Run("limits of time", func(t *testing.T) {
		if _, err := admin.Exec("ALTER DATABASE testadvisory SET statement_timeout = 200; ALTER DATABASE testadvisory SET idle_session_timeout = 200; ALTER DATABASE testadvisory SET lock_timeout = 200"); err != nil {
			t.Fatal(err)
		}
		lock := a.Take(t)
		got := a.Queue(t.Context(), t, a.Lock)
		await.Never(t, 500*time.Millisecond, "the lock is lost, or the wait over", func() bool { return lock.Err() != nil || len(got) > 0 })
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		(<-got).MustUnlock(t)
	})
}

// TestAdvisoryLost has the server end the session of a holder, and the holder die: the
// first is notified at once, and the next one is granted it at once.
func TestAdvisoryLost(t *testing.T) {
	server, admin := start(t)
	for _, what := range []string{"terminated", "connection closed"} {
		t.Run(what, func(t *testing.T) {
			config, end := mortal(t, server)
			if what == "terminated" {
				end = func() { terminate(t, admin) }
			}
			a := advisory(admin, config)
			a.Lost(t, a.Take(t), advisory(admin, settings(t, server)).Lock, end)
		})
	}
}

// TestAdvisoryUnreachable has the server stand still.
func TestAdvisoryUnreachable(t *testing.T) {
	server, _ := shared.Use(t)
	lock := advisory(nil, settings(t, server.Name)).Take(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Resume() }()
	sqltest.MustBeLost(t, lock, 13*time.Second, driver.ReasonUnreachable)
}

// TestAdvisoryWaitOfTheUnreachable has a program wait that nobody can reach any more, and
// that could not say so: the server does not wait for it for long.
func TestAdvisoryWaitOfTheUnreachable(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL) // with the usual deadlock_timeout, which bounds a wait
	admin := newDB(t, server.Name)
	proxy, err := faultproxy.RunRaw(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	far := settings(t, server.Name)
	far.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", proxy.Addr())
	}
	a := advisory(admin, settings(t, server.Name))
	lock := a.Take(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := a.Queue(ctx, t, advisory(admin, far).Lock)
	proxy.Blackhole(true)
	cancel()
	if o := <-got; !errors.Is(o.Err, context.Canceled) {
		t.Errorf("the wait that was cancelled: got %v", o.Err)
	}
	await.Until(t, 20*time.Second, "the server does not wait any more", func() bool {
		_, waiting := a.Sessions(t)
		return waiting == 0
	})
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	next, err := a.Try(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestAdvisoryRefuses is about servers whose advisory locks protect nothing: nothing is
// left there either.
func TestAdvisoryRefuses(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL)
	admin := newDB(t, server.Name)
	for what, start := range map[string]func(*testing.T) string{
		"pooler":  func(t *testing.T) string { return sqltest.PgBouncer(t, server.Name) },
		"standby": func(t *testing.T) string { return server.Standby(t, server.Addr()).Name },
	} {
		t.Run(what, func(t *testing.T) {
			config := settings(t, start(t))
			for range 2 { // the second meets the session that the first has used
				if _, err := pghold.TryAdvisory(await.Context(t, 10*time.Second), config, id); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("TryAdvisory: got %v, want errors.ErrUnsupported", err)
				}
			}
			if _, err := pghold.LockAdvisory(await.Context(t, 10*time.Second), config, id); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("LockAdvisory: got %v, want errors.ErrUnsupported", err)
			}
			advisory(admin, config).Free(t)
		})
	}
}

// TestAdvisoryAndConcurrentIndex has a holder wait for all older transactions, as
// migrations do, while another waits for its lock. The server must not find that they wait
// for each other.
func TestAdvisoryAndConcurrentIndex(t *testing.T) {
	url := database(t)
	admin := newDB(t, url)
	if _, err := admin.Exec("CREATE TABLE numbers (n int)"); err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t, 20*time.Second)
	migration, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer migration.Close(context.Background())
	if _, err := migration.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(id)); err != nil {
		t.Fatal(err)
	}
	a := advisory(admin, settings(t, url))
	got := a.Queue(ctx, t, a.Lock)
	await.Never(t, 300*time.Millisecond, "the wait ends by itself", func() bool { return len(got) > 0 }) // more than deadlock_timeout
	if _, err := migration.Exec(ctx, "CREATE INDEX CONCURRENTLY numbers_n ON numbers (n)"); err != nil {
		t.Errorf("while another waits for the lock of the migration: %v", err)
	}
	if _, err := migration.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(id)); err != nil {
		t.Fatal(err)
	}
	(<-got).MustUnlock(t)
}
