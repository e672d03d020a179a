// Package storestest runs one program on every store: what it does must not depend on
// the store, but for what Info says that the store lacks.
package storestest

import (
	"context"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) {
	anystore.Quiet()
	manytest.Serve(openLoad)
	sessiontest.RunProgram(openSession)
	goleak.VerifyTestMain(beside{m}, dial.Sleepers()...)
}

// stores returns what starts a store of each kind for a test. It returns what opens a
// client of it.
func stores() map[string]func(*testing.T) (open func(*testing.T) driver.Backend) {
	all := map[string]func(*testing.T) func(*testing.T) driver.Backend{
		"memory":    startMemory,
		"redisson":  func(t *testing.T) func(*testing.T) driver.Backend { return startRedis(t, redishold.Redisson) },
		"plain":     func(t *testing.T) func(*testing.T) driver.Backend { return startRedis(t, redishold.Plain) },
		"timestamp": func(t *testing.T) func(*testing.T) driver.Backend { return startRedis(t, redishold.Timestamp) },
		"quorum":    startQuorum,
		"mixed":     startMixed,
		"polling":   func(t *testing.T) func(*testing.T) driver.Backend { return startStore(t, polling()) },
		"shedlock":  startShedLock,
	}
	for _, k := range anystore.All() {
		all[k.Name] = func(t *testing.T) func(*testing.T) driver.Backend { return startStore(t, k) }
	}
	return all
}

// startStore starts a store that is no Redis.
func startStore(t *testing.T, k *anystore.Kind) func(*testing.T) driver.Backend {
	addr := k.Start(t).Addr
	return func(t *testing.T) driver.Backend {
		t.Helper()
		return dialed(t, k.Dial, addr, 5*time.Second)
	}
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
	return majority([]func(*testing.T) driver.Backend{startRedis(t, redishold.Redisson), startStore(t, anystore.PostgreSQL()), startStore(t, anystore.MariaDB())})
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

// polling is PostgreSQL for clients without notifications.
func polling() *anystore.Kind {
	k := anystore.PostgreSQL()
	k.Dial = k.Default
	return k
}

// startShedLock starts PostgreSQL with the table of ShedLock.
func startShedLock(t *testing.T) func(*testing.T) driver.Backend {
	url, _ := sqltest.StartPostgreSQL(t)
	return func(t *testing.T) driver.Backend {
		t.Helper()
		pool, err := pgxpool.New(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return sqltest.Prepared(t, pghold.New(pool, &pghold.Options{Layout: pghold.ShedLock}))
	}
}
