package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

// postgreSQL is one server. It counts statements with an extension that is installed with
// it.
type postgreSQL struct {
	*sqltest.Server
	db *sql.DB
}

func startPostgreSQL(settings Settings) (Server, error) {
	fsync := "fsync=on"
	if settings.SkipDisk {
		fsync = "fsync=off"
	}
	s, err := sqltest.RunPostgreSQL(fsync, "max_connections=200", "shared_preload_libraries=pg_stat_statements")
	if err != nil {
		return nil, err
	}
	db, err := prepare(s, s.Name, append(peer.PostgreSQLSchema(), "CREATE EXTENSION pg_stat_statements"))
	return &postgreSQL{s, db}, err
}

// prepare opens the database of a server and executes statements there. Where that fails,
// it closes the server.
func prepare(s *sqltest.Server, name string, statements []string) (*sql.DB, error) {
	db, err := sql.Open(s.Driver, name)
	if err != nil {
		s.Close()
		return nil, err
	}
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", statement, err), db.Close())
			s.Close()
			return nil, err
		}
	}
	return db, nil
}

func (p *postgreSQL) Reach(t *peer.Target) { t.PostgreSQL = p.Name }

// Empty empties the tables. Locks of connections end with these.
func (p *postgreSQL) Empty(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, "TRUNCATE "+strings.Join(peer.Tables(), ", "))
	return err
}

// Done counts statements, those that begin and end transactions included.
func (p *postgreSQL) Done(ctx context.Context) (Work, error) {
	w := Work{CPU: worked(p.PID())}
	err := p.db.QueryRowContext(ctx, "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements").Scan(&w.Requests)
	return w, err
}

func (p *postgreSQL) Close() {
	_ = p.db.Close()
	p.Server.Close()
}
