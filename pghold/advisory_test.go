package pghold_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pghold"
)

// The ids are those that the programs themselves use.
func TestAdvisoryIDs(t *testing.T) {
	for what, c := range map[string]struct{ got, want int64 }{
		"goose":                 {pghold.GooseID, 4097083626},
		"golang-migrate":        {pghold.MigrateID("public", "schema_migrations", "app"), 1787120056},
		"golang-migrate by URL": {pghold.MigrateURLID("public", "schema_migrations", "app"), 1726534663},
		"Flyway":                {pghold.FlywayID("public", "flyway_schema_history"), 77433833903597},
		"Rails":                 {pghold.RailsID("app"), 6939591962871035475},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", what, c.got, c.want)
		}
	}
}

func TestAdvisoryWithoutServer(t *testing.T) {
	config, err := pgx.ParseConfig("postgres://nobody@127.0.0.1:1/none?connect_timeout=5")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pghold.LockAdvisory(t.Context(), config, 1); err == nil || errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("LockAdvisory: got %v, want that there is no server", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pghold.TryAdvisory(ended, config, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("TryAdvisory with a context that has ended: got %v, want context.Canceled", err)
	}
	var none *pghold.AdvisoryLock
	if err := errors.Join(none.Err(), none.Unlock()); !errors.Is(err, holdfast.ErrUnlocked) {
		t.Errorf("Err and Unlock of nil: got %v, want ErrUnlocked", err)
	}
}

// A program waits until golang-migrate has ended, and keeps it from beginning again.
func ExampleLockAdvisory() {
	ctx := context.Background()
	config, err := pgx.ParseConfig("postgres://user@localhost/app")
	if err != nil {
		return
	}
	lock, err := pghold.LockAdvisory(ctx, config, pghold.MigrateURLID("public", "schema_migrations", "app"))
	if err != nil {
		return
	}
	defer lock.Unlock()
	useTheSchema(lock.Context(ctx))
}

func useTheSchema(context.Context) {}
