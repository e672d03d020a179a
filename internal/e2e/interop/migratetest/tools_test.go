package migratetest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/mysql" // the scheme "mysql"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// tool is a program that takes a lock for its migrations.
type tool interface {
	// migrate runs one more migration, and returns when it has ended.
	migrate(statement string) error

	// lock takes the lock as for a migration.
	lock(ctx context.Context) (unlocker, error)
}

type unlocker interface{ Unlock() error }

// toolOf returns a tool by its name.
func toolOf(name, url string) tool {
	switch name {
	case "goose":
		return &gooseTool{url, fstest.MapFS{}}
	case "instance":
		return byInstance(url)
	default:
		return byURL(strings.Replace(url, "postgres://", "pgx5://", 1))
	}
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
	m.LockTimeout = timeout
	return m.Up()
}

func (g *golangMigrate) lock(context.Context) (unlocker, error) {
	driver, err := g.open()
	if err != nil {
		return nil, err
	}
	return driver, driver.Lock()
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
	return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(timeout.Seconds())))
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

func (g *gooseTool) lock(ctx context.Context) (unlocker, error) {
	db, err := sql.Open("pgx", g.url)
	if err != nil {
		return nil, err
	}
	locker, err := gooseLocker()
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return gooseLock{locker, conn}, locker.SessionLock(ctx, conn)
}

// gooseLock is a lock of goose with its connection.
type gooseLock struct {
	locker lock.SessionLocker
	conn   *sql.Conn
}

// Unlock unlocks it.
func (l gooseLock) Unlock() error { return l.locker.SessionUnlock(context.Background(), l.conn) }
