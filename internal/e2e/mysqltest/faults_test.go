package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
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

// TestLostAnswers has clients contend for a name while a tenth of all answers is lost,
// and a tenth of them gives up early: there is one holder at a time, tokens rise, and
// nothing is left that keeps the name taken.
func TestLostAnswers(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	t.Run("rows", func(t *testing.T) { lostAnswers(t, database(t, dsn, admin), nil) })
	t.Run("shedlock", func(t *testing.T) { lostAnswers(t, database(t, dsn, admin), shed()) })
}

func lostAnswers(t *testing.T, at string, layout *mysqlhold.Options) {
	fenced := sqltest.Prepared(t, mysqlhold.New(newDB(t, at), layout)).Info().Caps.Fencing
	var loss sqltest.Losses
	var passes atomic.Int64
	loss.Percent.Store(10)
	const ttl = 3 * time.Second
	var lockers []*holdfast.Locker
	for i := range 4 {
		config, err := mysql.ParseDSN(at + "?interpolateParams=true")
		if err != nil {
			t.Fatal(err)
		}
		config.Logger = &mysql.NopLogger{}
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return loss.On(conn), nil
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		db.SetMaxIdleConns(4)
		t.Cleanup(func() { _ = db.Close() })
		opts := &holdfast.Options{TTL: ttl}
		if i > 0 {
			opts.Handoff.Max = -1 // else most never reach the store
		}
		lockers = append(lockers, holdfast.New(mysqlhold.New(db, layout), opts))
	}
	ctx := await.Context(t, 6*time.Second)
	var inside atomic.Int32
	var token atomic.Uint64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				limit, cancel := ctx, context.CancelFunc(func() {})
				if rand.IntN(10) == 0 {
					limit, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
				}
				lock, err := lockers[i%4].Lock(limit, "job")
				cancel()
				if err != nil {
					continue // the context has ended, or the store gave no answer
				}
				if n, last := inside.Add(1), token.Swap(lock.Token()); n != 1 || fenced && lock.Token() <= last {
					t.Errorf("%d holders, token %d after %d", n, lock.Token(), last)
				}
				passes.Add(1)
				inside.Add(-1)
				_ = lock.Unlock() // an answer may be lost here too
			}
		})
	}
	wg.Wait()
	if loss.Lost.Load() < 20 || passes.Load() < 20 {
		t.Fatalf("%d answers were lost and %d locks taken: nothing is tested", loss.Lost.Load(), passes.Load())
	}
	t.Logf("%d answers were lost, %d locks taken", loss.Lost.Load(), passes.Load())
	loss.Percent.Store(0)
	lock, err := lockers[0].Lock(await.Context(t, ttl+2*time.Second), "job")
	if err != nil {
		t.Fatalf("after the faults the name stays taken: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	for _, l := range lockers {
		if err := l.Drain(await.Context(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	}
}

// TestLockTx has transactions read a number and write the next one, in two statements,
// which loses updates unless they take turns.
func TestLockTx(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	db := newDB(t, database(t, dsn, admin))
	b := sqltest.Prepared(t, mysqlhold.New(db, nil))
	const workers, rounds = 4, 25
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			for _, statement := range []string{"DROP TABLE IF EXISTS counters", "CREATE TABLE counters (n INT) ENGINE=InnoDB", "INSERT INTO counters VALUES (0)"} {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			ctx := await.Context(t, time.Minute)
			count := func() error {
				tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if err := b.LockTx(ctx, tx, "counter"); err != nil {
					return err
				}
				var n int
				if err := tx.QueryRow("SELECT n FROM counters").Scan(&n); err != nil {
					return err
				}
				if _, err := tx.Exec("UPDATE counters SET n = ?", n+1); err != nil {
					return err
				}
				return tx.Commit()
			}
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for range rounds {
						if err := count(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			var n int
			if err := db.QueryRow("SELECT n FROM counters").Scan(&n); err != nil || n != workers*rounds {
				t.Errorf("the counter is at %d, error %v, want %d", n, err, workers*rounds)
			}
		})
	}
}

// TestSetup is about tables that are not there or not as they must be, and sessions that
// do not commit.
func TestSetup(t *testing.T) {
	dsn, admin, _ := sqltest.StartMySQL(t)
	at := database(t, dsn, admin)
	db := newDB(t, at)
	mustRefuse := func(b *mysqlhold.Backend, says ...string) {
		t.Helper()
		_, err := holdfast.New(b, nil).Lock(await.Context(t, 10*time.Second), "job")
		if !errors.Is(err, driver.ErrRefused) {
			t.Errorf("Lock: got %v, want ErrRefused", err)
			return
		}
		for _, word := range says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("Lock: got %v, want that it says %q", err, word)
			}
		}
	}
	b := mysqlhold.New(db, &mysqlhold.Options{Table: "Locks"})
	mustRefuse(b, "CREATE TABLE IF NOT EXISTS `Locks`", "CreateTable")
	for from, to := range map[string]string{"expires DATETIME(6)": "expires TIMESTAMP(6)", "name VARBINARY(2060)": "name VARCHAR(500)", "InnoDB": "MyISAM"} {
		schema := strings.ReplaceAll(b.Schema(), from, to)
		if to == "MyISAM" { // which has shorter keys
			schema = strings.ReplaceAll(schema, "2060", "500")
		}
		if _, err := db.Exec(schema); err != nil {
			t.Fatal(err)
		}
		word, _, _ := strings.Cut(from, " ")
		mustRefuse(b, "not as it must be", strings.ReplaceAll(word, "InnoDB", "ENGINE="+to))
		if _, err := db.Exec("DROP TABLE Locks"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	lazy := mysqlhold.New(newDB(t, at+"?autocommit=0"), &mysqlhold.Options{Table: "Locks"})
	mustRefuse(lazy, "autocommit=0")
	named := fmt.Sprintf("%s.Locks", strings.TrimPrefix(at[strings.LastIndex(at, "/"):], "/"))
	elsewhere := mysqlhold.New(newDB(t, dsn), &mysqlhold.Options{Table: named})
	lock, err := holdfast.New(elsewhere, nil).Lock(t.Context(), "job")
	if err != nil {
		t.Fatalf("Lock in the table of another database: %v", err)
	}
	if _, err := holdfast.New(b, nil).TryLock(t.Context(), "job"); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock of what is held: got %v, want ErrBusy", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), driver.Claim{Name: "job", Owner: "a:1"}); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Release over a closed pool: got %v, want ErrClosed", err)
	}
}
