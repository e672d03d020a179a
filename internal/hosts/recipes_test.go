package hosts

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/hibiken/asynq"
	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/named"
)

// What follows is in docs/recipes.md, see TestRecipesAreThoseOfThePage.

func migrateWithGoose(ctx context.Context, locker *holdfast.Locker, db *sql.DB, migrations fs.FS) error {
	lock := goose.WithLocker(named.NewDB(locker.Mutex("migrations")))
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, lock)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// lockedDriver has Lock and Unlock of named.One. They hide those of the Driver.
type lockedDriver struct {
	innerDriver
	named.One
}

type innerDriver struct{ database.Driver }

func migrateWithGolangMigrate(locker *holdfast.Locker, db database.Driver, migrations fs.FS, longest time.Duration) error {
	lock := named.NewOne(locker.Mutex("migrations"), holdfast.Wait(longest))
	source, err := iofs.New(migrations, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "db", lockedDriver{innerDriver{db}, lock})
	if err != nil {
		return err
	}
	m.LockTimeout = longest + 5*time.Second // longer than Wait
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return nil
}

// lockedStorage has the locks of named.Locks. They hide those of the Storage.
type lockedStorage struct {
	innerStorage
	*named.Locks
}

type innerStorage struct{ certmagic.Storage }

func withLocks(locker *holdfast.Locker, storage certmagic.Storage) certmagic.Storage {
	return lockedStorage{innerStorage{storage}, named.New(locker, "certmagic/")}
}

func schedule(ctx context.Context, e *elect.Election, redis asynq.RedisConnOpt, register func(*asynq.Scheduler) error) error {
	return e.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
		s := asynq.NewScheduler(redis, nil)
		if err := register(s); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-term.Done()
		s.Shutdown()
		return nil
	})
}
