package hosts

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/database/stub"
	databasetesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/named"
)

func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// What goose exports for lockers.
func TestGoose(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		db := openSQLite(t, filepath.Join(t.TempDir(), "one.db"))
		t.Run("locker", func(t *testing.T) {
			locktesting.TestConcurrentLocking(t, db, func(*testing.T) lock.Locker {
				return named.NewDB(newLocker().Mutex("locker"))
			}, time.Second)
		})
		for name, option := range map[string]func() goose.ProviderOption{
			"providers": func() goose.ProviderOption {
				return goose.WithLocker(named.NewDB(newLocker().Mutex("providers")))
			},
			"sessions": func() goose.ProviderOption {
				return goose.WithSessionLocker(named.NewSession(newLocker().Mutex("sessions")))
			},
		} {
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "one.db")
				locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
					p, err := goose.NewProvider(goose.DialectSQLite3, openSQLite(t, file), gooseMigrations(), option())
					if err != nil {
						t.Fatal(err)
					}
					return p
				})
			})
		}
		t.Run("recipe", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "one.db")
			var all sync.WaitGroup
			for range 5 {
				db, locker := openSQLite(t, file), newLocker()
				all.Go(func() {
					if err := migrateWithGoose(t.Context(), locker, db, gooseMigrations()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	})
}

func gooseMigrations() fs.FS {
	files := fstest.MapFS{}
	for i := range 5 {
		text := fmt.Sprintf("-- +goose Up\nCREATE TABLE t%d (a int);\n-- +goose Down\nDROP TABLE t%[1]d;\n", i)
		files[fmt.Sprintf("0000%d_t.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// What golang-migrate exports for drivers.
func TestGolangMigrate(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		for name, open := range map[string]func(t *testing.T) (database.Driver, error){
			"stub": func(*testing.T) (database.Driver, error) { return stub.WithInstance(nil, &stub.Config{}) },
			"SQLite": func(t *testing.T) (database.Driver, error) {
				db := openSQLite(t, filepath.Join(t.TempDir(), "one.db"))
				return sqlite.WithInstance(db, &sqlite.Config{})
			},
		} {
			t.Run(name, func(t *testing.T) {
				d, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				one := named.NewOne(newLocker().Mutex(name))
				databasetesting.Test(t, lockedDriver{innerDriver{d}, one}, []byte("CREATE TABLE t (a int)"))
			})
		}
	})
}
