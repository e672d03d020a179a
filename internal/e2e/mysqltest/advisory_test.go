package mysqltest

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// connector returns how to connect to a database, and a function that closes the last
// connection made with it as the end of the process would.
func connector(t *testing.T, dsn string) (c sqldriver.Connector, cut func()) {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &mysql.NopLogger{}
	var last atomic.Pointer[net.Conn]
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			last.Store(&conn)
		}
		return conn, err
	}
	if c, err = mysql.NewConnector(config); err != nil {
		t.Fatal(err)
	}
	return c, func() { _ = (*last.Load()).Close() }
}

func lockAdvisory(t *testing.T, c sqldriver.Connector) *mysqlhold.AdvisoryLock {
	t.Helper()
	lock, err := mysqlhold.LockAdvisory(await.Context(t, 20*time.Second), c, "job")
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

type result struct {
	lock *mysqlhold.AdvisoryLock
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

// queue waits for the lock, and sends what came of it.
func queue(ctx context.Context, c sqldriver.Connector) <-chan result {
	got := make(chan result, 1)
	go func() {
		lock, err := mysqlhold.LockAdvisory(ctx, c, "job")
		got <- result{lock, err}
	}()
	return got
}

// awaitWaiting waits until so many sessions wait in GET_LOCK.
func awaitWaiting(t *testing.T, admin *sql.DB, want int) {
	t.Helper()
	await.Until(t, 5*time.Second, "that many wait", func() bool { return waiting(t, admin) == want })
}

func waiting(t *testing.T, admin *sql.DB) (n int) {
	t.Helper()
	if err := admin.QueryRow("SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// holder returns the connection that holds the lock, 0 if there is none.
func holder(t *testing.T, admin *sql.DB) int64 {
	t.Helper()
	var id sql.NullInt64
	if err := admin.QueryRow("SELECT IS_USED_LOCK('job')").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id.Int64
}

func TestAdvisory(t *testing.T) {
	dsn, admin, oracle := sqltest.StartMySQL(t)
	c, _ := connector(t, dsn)

	t.Run("excludes", func(t *testing.T) {
		lock := lockAdvisory(t, c)
		ctx := await.Context(t, 10*time.Second)
		if _, err := mysqlhold.TryAdvisory(ctx, c, "job"); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("TryAdvisory beside a holder: got %v, want ErrBusy", err)
		}
		other, err := mysqlhold.TryAdvisory(ctx, c, "another job")
		result{other, err}.mustUnlock(t)
		upper, err := mysqlhold.TryAdvisory(ctx, c, "JOB")
		if same := errors.Is(err, holdfast.ErrBusy); same != oracle {
			t.Errorf("TryAdvisory of the name in upper case: got error %v, want ErrBusy from MySQL only", err)
		}
		_ = upper.Unlock() // nil where it is busy
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("second Unlock: got %v, want ErrUnlocked", err)
		}
		next, err := mysqlhold.TryAdvisory(ctx, c, "job")
		result{next, err}.mustUnlock(t)
	})

	t.Run("waits", func(t *testing.T) {
		lock := lockAdvisory(t, c)
		got := queue(t.Context(), c)
		awaitWaiting(t, admin, 1)
		await.Never(t, 1500*time.Millisecond, "the wait is over, which is longer than a call of GET_LOCK", func() bool { return len(got) > 0 })
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
		lock := lockAdvisory(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		got := queue(ctx, c)
		awaitWaiting(t, admin, 1)
		cancel()
		began := await.NewWatch(t)
		if r := <-got; !errors.Is(r.err, context.Canceled) || errors.Is(r.err, holdfast.ErrBusy) {
			t.Errorf("LockAdvisory: got %v, want context.Canceled", r.err)
		}
		if took := began.Took(); took > 2*time.Second {
			t.Errorf("the wait ended %v after its context", took)
		}
		if n := waiting(t, admin); n != 0 {
			t.Errorf("%d are in the queue after the wait was cancelled", n)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		if id := holder(t, admin); id != 0 {
			t.Errorf("connection %d holds the lock after all have ended", id)
		}
	})

	t.Run("cancelled at the grant", func(t *testing.T) {
		for range 20 {
			lock := lockAdvisory(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			got := queue(ctx, c)
			awaitWaiting(t, admin, 1)
			go cancel()
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			if r := <-got; r.err == nil {
				r.mustUnlock(t)
			}
			if id := holder(t, admin); id != 0 {
				t.Fatalf("connection %d holds the lock after all have ended", id)
			}
		}
	})
}

// TestAdvisoryLost has the server end the session of a holder, and the holder die: the
// first is notified soon, and the next one is granted it at once.
func TestAdvisoryLost(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	c, die := connector(t, dsn)
	next, _ := connector(t, dsn)
	for what, end := range map[string]func(){
		"killed": func() {
			if _, err := admin.Exec(fmt.Sprintf("KILL %d", holder(t, admin))); err != nil {
				t.Fatal(err)
			}
		},
		"connection closed": die,
	} {
		t.Run(what, func(t *testing.T) {
			lock := lockAdvisory(t, c)
			got := queue(t.Context(), next)
			awaitWaiting(t, admin, 1)
			end()
			(<-got).mustUnlock(t)
			sqltest.MustBeLost(t, lock, 3*time.Second, driver.ReasonClosed)
		})
	}
}

// TestAdvisoryUnreachable has the server stand still.
func TestAdvisoryUnreachable(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunMariaDB)
	c, _ := connector(t, server.Name)
	lock := lockAdvisory(t, c)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Resume() }()
	sqltest.MustBeLost(t, lock, 9*time.Second, driver.ReasonUnreachable)
}
