package mysqltest

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/lossytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestLostAnswers has clients contend for a lock in the table of ShedLock while a fifth of the
// answers is lost. Package storestest has the usual table.
func TestLostAnswers(t *testing.T) {
	at := database(t)
	sqltest.Prepared(t, mysqlhold.New(newDB(t, at), shed()))
	var loss sqltest.Losses
	loss.Percent.Store(20)
	lossytest.Store{
		TTL: 3 * time.Second, Plain: true, Mutex: (*holdfast.Locker).Mutex,
		Open: func(t *testing.T) driver.Backend {
			db, err := sqltest.LossyMySQL(at+"?interpolateParams=true", &loss)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return mysqlhold.New(db, shed())
		},
		Lost: func() int { return int(loss.Lost.Load()) },
		Heal: func() { loss.Percent.Store(0) },
	}.Run(t)
}

// TestLockTx has transactions read a number and write the next one, in two statements,
// which loses updates unless they take turns.
func TestLockTx(t *testing.T) {
	db := newDB(t, database(t))
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
	dsn, _ := start(t)
	at := database(t)
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
