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

	"github.com/holdfast-go/holdfast"
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

func lockAdvisory(t *testing.T, config *pgx.ConnConfig) *pghold.AdvisoryLock {
	t.Helper()
	lock, err := pghold.LockAdvisory(await.Context(t, 20*time.Second), config, id)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// queue waits for the lock, and sends what came of it.
func queue(ctx context.Context, config *pgx.ConnConfig) <-chan result {
	got := make(chan result, 1)
	go func() {
		lock, err := pghold.LockAdvisory(ctx, config, id)
		got <- result{lock, err}
	}()
	return got
}

type result struct {
	lock *pghold.AdvisoryLock
	err  error
}

func (r result) mustUnlock(t *testing.T) {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.lock.Unlock(); err != nil {
		t.Error(err)
	}
}

// awaitAdvisory waits until so many sessions hold an advisory lock and so many wait.
func awaitAdvisory(t *testing.T, admin *sql.DB, held, waiting int) {
	t.Helper()
	await.Until(t, 5*time.Second, "the server has that many holders and waiters", func() bool {
		var n int
		err := admin.QueryRow("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").Scan(&n)
		return err == nil && n == held && waiters(t, admin) == waiting
	})
}

// waiters counts the sessions that wait. In pg_locks they are missing for a moment
// whenever their wait begins again.
func waiters(t *testing.T, admin *sql.DB) (n int) {
	t.Helper()
	if err := admin.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%PERFORM pg_advisory_lock%' AND pid <> pg_backend_pid()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// mustBeBusy requires that the lock is held by another.
func mustBeBusy(t *testing.T, config *pgx.ConnConfig) {
	t.Helper()
	if _, err := pghold.TryAdvisory(await.Context(t, 10*time.Second), config, id); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryAdvisory beside a holder: got %v, want ErrBusy", err)
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
	url := database(t, server, admin)
	config := settings(t, url)

	t.Run("excludes", func(t *testing.T) {
		lock := lockAdvisory(t, config)
		mustBeBusy(t, config)
		ctx := await.Context(t, 10*time.Second)
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
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("second Unlock: got %v, want ErrUnlocked", err)
		}
		next, err := pghold.TryAdvisory(ctx, config, id)
		result{next, err}.mustUnlock(t)
		awaitAdvisory(t, admin, 0, 0)
	})

	t.Run("waits", func(t *testing.T) {
		lock := lockAdvisory(t, config)
		got := queue(t.Context(), config)
		awaitAdvisory(t, admin, 1, 1)
		began := await.NewWatch(t)
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		next := <-got
		if took := began.Took(); took > 500*time.Millisecond {
			t.Errorf("granted %v after the release", took)
		}
		next.mustUnlock(t)
	})

	t.Run("cancelled", func(t *testing.T) {
		lock := lockAdvisory(t, config)
		ctx, cancel := context.WithCancel(t.Context())
		got := queue(ctx, config)
		awaitAdvisory(t, admin, 1, 1)
		cancel()
		if r := <-got; !errors.Is(r.err, context.Canceled) {
			t.Errorf("LockAdvisory: got %v, want context.Canceled", r.err)
		}
		if n := waiters(t, admin); n != 0 {
			t.Errorf("%d are in the queue after the wait was cancelled", n)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		awaitAdvisory(t, admin, 0, 0)
	})

	t.Run("cancelled at the grant", func(t *testing.T) {
		for range 50 {
			lock := lockAdvisory(t, config)
			ctx, cancel := context.WithCancel(t.Context())
			got := queue(ctx, config)
			awaitAdvisory(t, admin, 1, 1)
			go cancel()
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			if r := <-got; r.err == nil {
				r.mustUnlock(t)
			}
			awaitAdvisory(t, admin, 0, 0)
		}
	})

	t.Run("waiter dies", func(t *testing.T) {
		lock := lockAdvisory(t, config)
		waiter, die := mortal(t, url)
		got := queue(t.Context(), waiter)
		awaitAdvisory(t, admin, 1, 1)
		die()
		if r := <-got; r.err == nil {
			t.Error("granted over a connection that is closed")
		}
		awaitAdvisory(t, admin, 1, 0)
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})

	t.Run("limits of time", func(t *testing.T) {
		if _, err := admin.Exec("ALTER DATABASE testadvisory SET statement_timeout = 200; ALTER DATABASE testadvisory SET idle_session_timeout = 200; ALTER DATABASE testadvisory SET lock_timeout = 200"); err != nil {
			t.Fatal(err)
		}
		lock := lockAdvisory(t, config)
		got := queue(t.Context(), config)
		awaitAdvisory(t, admin, 1, 1)
		await.Never(t, 500*time.Millisecond, "the lock is lost, or the wait over", func() bool { return lock.Err() != nil || len(got) > 0 })
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		(<-got).mustUnlock(t)
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
			lock := lockAdvisory(t, config)
			got := queue(t.Context(), settings(t, server))
			awaitAdvisory(t, admin, 1, 1)
			end()
			sqltest.MustBeLost(t, lock, 3*time.Second, driver.ReasonClosed)
			(<-got).mustUnlock(t)
		})
	}
}

// TestAdvisoryUnreachable has the server stand still.
func TestAdvisoryUnreachable(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL)
	lock := lockAdvisory(t, settings(t, server.Name))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Resume() }()
	sqltest.MustBeLost(t, lock, 13*time.Second, driver.ReasonUnreachable)
}

// TestAdvisoryWaitOfTheUnreachable has a program wait that nobody can reach any more, and
// that could not say so: the server does not wait for it for long.
func TestAdvisoryWaitOfTheUnreachable(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL)
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
	lock := lockAdvisory(t, settings(t, server.Name))
	ctx, cancel := context.WithCancel(t.Context())
	got := queue(ctx, far)
	awaitAdvisory(t, admin, 1, 1)
	proxy.Blackhole(true)
	cancel()
	if r := <-got; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the wait that was cancelled: got %v", r.err)
	}
	await.Until(t, 20*time.Second, "the server does not wait any more", func() bool { return waiters(t, admin) == 0 })
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	next, err := pghold.TryAdvisory(t.Context(), settings(t, server.Name), id)
	result{next, err}.mustUnlock(t)
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
			awaitAdvisory(t, admin, 0, 0)
		})
	}
}

// TestAdvisoryAndConcurrentIndex has a holder wait for all older transactions, as
// migrations do, while another waits for its lock. The server must not find that they wait
// for each other.
func TestAdvisoryAndConcurrentIndex(t *testing.T) {
	server, admin := start(t)
	if _, err := admin.Exec("CREATE TABLE numbers (n int)"); err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t, 20*time.Second)
	migration, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer migration.Close(context.Background())
	if _, err := migration.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(id)); err != nil {
		t.Fatal(err)
	}
	got := queue(ctx, settings(t, server))
	awaitAdvisory(t, admin, 1, 1)
	await.Never(t, 300*time.Millisecond, "the wait ends by itself", func() bool { return len(got) > 0 }) // more than deadlock_timeout
	if _, err := migration.Exec(ctx, "CREATE INDEX CONCURRENTLY numbers_n ON numbers (n)"); err != nil {
		t.Errorf("while another waits for the lock of the migration: %v", err)
	}
	if _, err := migration.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(id)); err != nil {
		t.Fatal(err)
	}
	(<-got).mustUnlock(t)
}
