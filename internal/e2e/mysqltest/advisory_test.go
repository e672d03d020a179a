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

// advisory is the lock "job", over connections by c.
func advisory(admin *sql.DB, c sqldriver.Connector) sqltest.Advisory {
	return sqltest.Advisory{
		Try: func(ctx context.Context) (sqltest.AdvisoryLock, error) {
			return sqltest.Taken(mysqlhold.TryAdvisory(ctx, c, "job"))
		},
		Lock: func(ctx context.Context) (sqltest.AdvisoryLock, error) {
			return sqltest.Taken(mysqlhold.LockAdvisory(ctx, c, "job"))
		},
		Sessions: func(t *testing.T) (held, waiting int) {
			t.Helper()
			const query = "SELECT IS_USED_LOCK('job') IS NOT NULL, (SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock')"
			if err := admin.QueryRow(query).Scan(&held, &waiting); err != nil {
				t.Fatal(err)
			}
			return held, waiting
		},
	}
}

func TestAdvisory(t *testing.T) {
	dsn, admin := start(t)
	c, _ := connector(t, dsn)
	a := advisory(admin, c)
	a.Test(t)
	t.Run("names", func(t *testing.T) {
		lock, ctx := a.Take(t), await.Context(t, 10*time.Second)
		other, err := mysqlhold.TryAdvisory(ctx, c, "another job")
		if err != nil {
			t.Fatal(err)
		}
		upper, err := mysqlhold.TryAdvisory(ctx, c, "JOB")
		if same := errors.Is(err, holdfast.ErrBusy); same != oracle() {
			t.Errorf("TryAdvisory of the name in upper case: got error %v, want ErrBusy from MySQL only", err)
		}
		_ = upper.Unlock() // nil where it is busy
		if err := errors.Join(other.Unlock(), lock.Unlock()); err != nil {
			t.Error(err)
		}
	})
}

// TestAdvisoryLost has the server end the session of a holder, and the holder die: the
// first is notified soon, and the next one is granted it at once.
func TestAdvisoryLost(t *testing.T) {
	dsn, admin := start(t)
	c, die := connector(t, dsn)
	next, _ := connector(t, dsn)
	for what, end := range map[string]func(){
		"killed": func() {
			var holder int64
			if err := admin.QueryRow("SELECT IS_USED_LOCK('job')").Scan(&holder); err != nil {
				t.Fatal(err)
			}
			execute(t, admin, fmt.Sprintf("KILL %d", holder))
		},
		"connection closed": die,
	} {
		t.Run(what, func(t *testing.T) {
			a := advisory(admin, c)
			a.Lost(t, a.Take(t), advisory(admin, next).Lock, end)
		})
	}
}

// TestAdvisoryUnreachable has the server stand still.
func TestAdvisoryUnreachable(t *testing.T) {
	server, _ := shared.Use(t)
	c, _ := connector(t, server.Name)
	lock := advisory(nil, c).Take(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Resume() }()
	sqltest.MustBeLost(t, lock, 9*time.Second, driver.ReasonUnreachable)
}
