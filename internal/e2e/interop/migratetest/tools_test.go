package migratetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/mysql" // the scheme "mysql"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/internal/await"
)

// tool is a program that takes a lock for its migrations.
type tool interface {
	// migrate runs one more migration, and returns when it has ended.
	migrate(statement string) error

	// lock takes the lock as for a migration. die ends the connection without an unlock.
	lock(t *testing.T) (die func())
}

// golangMigrate is golang-migrate over a database that open opens.
type golangMigrate struct {
	open  func() (database.Driver, error)
	files fstest.MapFS
}

func (g *golangMigrate) migrate(statement string) error {
	g.files[fmt.Sprintf("%d_x.up.sql", len(g.files)+1)] = &fstest.MapFile{Data: []byte(statement)}
	source, err := iofs.New(g.files, ".")
	if err != nil {
		return err
	}
	driver, err := g.open()
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "database", driver)
	if err != nil {
		return err
	}
	defer m.Close()
	m.LockTimeout = patience
	return m.Up()
}

func (g *golangMigrate) lock(t *testing.T) (die func()) {
	t.Helper()
	driver, err := g.open()
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Lock(); err != nil {
		t.Fatal(err)
	}
	return func() { _ = driver.Close() }
}

// byURL opens a database as the command line of golang-migrate does.
func byURL(url string) *golangMigrate {
	return &golangMigrate{func() (database.Driver, error) { return database.Open(url) }, fstest.MapFS{}}
}

// byInstance opens a PostgreSQL as programs do that have a connection.
func byInstance(url string) *golangMigrate {
	return &golangMigrate{func() (database.Driver, error) {
		db, err := sql.Open("pgx", url)
		if err != nil {
			return nil, err
		}
		return pgxmigrate.WithInstance(db, &pgxmigrate.Config{})
	}, fstest.MapFS{}}
}

// gooseTool is goose with its session locker, which asks once a second.
type gooseTool struct {
	url   string
	files fstest.MapFS
}

func gooseLocker() (lock.SessionLocker, error) {
	return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(patience.Seconds())))
}

func (g *gooseTool) migrate(statement string) error {
	g.files[fmt.Sprintf("%05d_x.sql", len(g.files)+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + statement)}
	db, err := sql.Open("pgx", g.url)
	if err != nil {
		return err
	}
	defer db.Close()
	locker, err := gooseLocker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, g.files, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	_, err = p.Up(context.Background())
	return err
}

func (g *gooseTool) lock(t *testing.T) (die func()) {
	t.Helper()
	db, err := sql.Open("pgx", g.url)
	if err != nil {
		t.Fatal(err)
	}
	locker, err := gooseLocker()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := locker.SessionLock(await.Context(t, patience), conn); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close(); _ = db.Close() }
}
