package anystore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

// noStore says that the variable which names the store's program is not set, if it is not.
func noStore(variable string, err error) error {
	if os.Getenv(variable) == "" {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return err
}

// runDatabase makes the table of a server, and lists the rows of locks that are held or waited
// for. now is the time of the server, in SQL; cost is what clients cost it.
func runDatabase(k *Kind, now string, cost func(*sql.DB) (Cost, error)) func(*sqltest.Server, error) (*Store, error) {
	return func(s *sqltest.Server, err error) (*Store, error) {
		if errors.Is(err, sqltest.ErrMissing) {
			return nil, fmt.Errorf("%w: %w", ErrMissing, err)
		}
		if err != nil {
			return nil, err
		}
		db, err := sql.Open(s.Driver, s.Name)
		if err == nil {
			err = createTable(k, s.Addr())
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		db.SetMaxIdleConns(1)
		held := func(ctx context.Context) ([]string, error) {
			return namesIn(ctx, db, "SELECT name FROM holdfast_locks WHERE owner <> '' AND expires > "+now)
		}
		shut := func() {
			_ = db.Close()
			s.Close()
		}
		return &Store{Server: s, Kind: k, Addr: s.Addr(), Held: held, Cost: func() (Cost, error) { return cost(db) }, Close: shut}, nil
	}
}

// namesIn returns the column of texts that a query finds.
func namesIn(ctx context.Context, db *sql.DB, query string) (names []string, err error) {
	found, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, found.Err()
}

// createTable makes the table of locks.
func createTable(k *Kind, addr string) error {
	b, shut, err := k.Dial(addr, 0)
	if err != nil {
		return err
	}
	defer shut()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return b.(sqltest.Store).CreateTable(ctx)
}

// execute has an administrator execute statements.
func execute(t *testing.T, s *sqltest.Server, statements ...string) {
	t.Helper()
	db, err := sql.Open(s.Driver, s.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// freeze stops a server until t ends.
func freeze(t *testing.T, s *sqltest.Server) {
	t.Helper()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Resume() })
}
