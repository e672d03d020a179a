// Package storestest runs one program on every store: what it does must not depend on
// the store, but for what Info says that the store lacks.
package storestest

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/zkhold"
)

func TestMain(m *testing.M) {
	anystore.Quiet()
	manytest.Serve(openLoad)
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}

// stores returns what starts a store of each kind for a test. It returns what opens a
// client of it. MySQL is among them where HOLDFAST_MYSQL names a server.
func stores() map[string]func(*testing.T) (open func(*testing.T) driver.Backend) {
	all := map[string]func(*testing.T) func(*testing.T) driver.Backend{
		"memory":     startMemory,
		"redisson":   func(t *testing.T) func(*testing.T) driver.Backend { return startRedis(t, redishold.Redisson) },
		"plain":      func(t *testing.T) func(*testing.T) driver.Backend { return startRedis(t, redishold.Plain) },
		"timestamp":  func(t *testing.T) func(*testing.T) driver.Backend { return startRedis(t, redishold.Timestamp) },
		"quorum":     startQuorum,
		"mixed":      startMixed,
		"etcd":       startEtcd,
		"zookeeper":  startZooKeeper,
		"postgresql": startPostgreSQL,
		"polling":    startPolling,
		"shedlock":   startShedLock,
		"mariadb":    startMariaDB,
	}
	if os.Getenv(sqltest.MySQLEnv) != "" {
		all["mysql"] = startMySQL
	}
	return all
}

func startMemory(*testing.T) func(*testing.T) driver.Backend {
	b := memhold.New()
	return func(*testing.T) driver.Backend { return b }
}

func startRedis(t *testing.T, layout redishold.Layout) func(*testing.T) driver.Backend {
	server := redistest.Start(t)
	return func(t *testing.T) driver.Backend {
		t.Helper()
		conn, closeConn, err := dial.Server(dial.Adapters()[0], server.Addr(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(closeConn)
		return redishold.New(conn, &redishold.Options{Layout: layout})
	}
}

func startQuorum(t *testing.T) func(*testing.T) driver.Backend {
	var opens []func(*testing.T) driver.Backend
	for range 3 {
		opens = append(opens, startRedis(t, redishold.Redisson))
	}
	return majority(opens)
}

// startMixed starts a quorum of three stores that have nothing in common.
func startMixed(t *testing.T) func(*testing.T) driver.Backend {
	return majority([]func(*testing.T) driver.Backend{startRedis(t, redishold.Redisson), startPostgreSQL(t), startMariaDB(t)})
}

func majority(opens []func(*testing.T) driver.Backend) func(*testing.T) driver.Backend {
	return func(t *testing.T) driver.Backend {
		t.Helper()
		var members []driver.Backend
		for _, open := range opens {
			members = append(members, open(t))
		}
		return of(t, members...)
	}
}

func of(t *testing.T, members ...driver.Backend) driver.Backend {
	t.Helper()
	b, err := quorum.New(members, &quorum.Options{TrustRestarts: true}) // else servers that were just started have no vote
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func startEtcd(t *testing.T) func(*testing.T) driver.Backend {
	server := etcdtest.Start(t)
	return func(t *testing.T) driver.Backend {
		t.Helper()
		return etcdhold.New(server.Client(t), &etcdhold.Options{TTL: 5 * time.Second})
	}
}

func startZooKeeper(t *testing.T) func(*testing.T) driver.Backend {
	server := zktest.Start(t)
	return func(t *testing.T) driver.Backend {
		t.Helper()
		b := zkhold.New([]string{server.Addr()}, &zkhold.Options{TTL: 5 * time.Second})
		t.Cleanup(b.Close)
		return b
	}
}

func startPostgreSQL(t *testing.T) func(*testing.T) driver.Backend {
	return openPostgreSQL(t, func(c *pgxpool.Config) *pghold.Options { return &pghold.Options{Listen: c.ConnConfig} })
}

// startPolling starts PostgreSQL for clients without notifications.
func startPolling(t *testing.T) func(*testing.T) driver.Backend {
	return openPostgreSQL(t, func(*pgxpool.Config) *pghold.Options { return nil })
}

func startShedLock(t *testing.T) func(*testing.T) driver.Backend {
	return openPostgreSQL(t, func(*pgxpool.Config) *pghold.Options { return &pghold.Options{Layout: pghold.ShedLock} })
}

func openPostgreSQL(t *testing.T, options func(*pgxpool.Config) *pghold.Options) func(*testing.T) driver.Backend {
	url, _ := sqltest.StartPostgreSQL(t)
	return func(t *testing.T) driver.Backend {
		t.Helper()
		pool, err := pgxpool.New(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return sqltest.Prepared(t, pghold.New(pool, options(pool.Config())))
	}
}

func startMariaDB(t *testing.T) func(*testing.T) driver.Backend {
	dsn, _ := sqltest.StartMariaDB(t)
	return openMySQL(dsn)
}

// startMySQL starts the server that HOLDFAST_MYSQL names.
func startMySQL(t *testing.T) func(*testing.T) driver.Backend {
	dsn, _, _ := sqltest.StartMySQL(t)
	return openMySQL(dsn)
}

func openMySQL(dsn string) func(*testing.T) driver.Backend {
	return func(t *testing.T) driver.Backend {
		t.Helper()
		db, err := sql.Open("mysql", dsn+"?interpolateParams=true")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return sqltest.Prepared(t, mysqlhold.New(db, nil))
	}
}
