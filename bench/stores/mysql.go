package stores

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

// mySQL is one server of MariaDB, or of MySQL where sqltest.MySQLEnv names one.
type mySQL struct {
	*sqltest.Server
	dsn string
	db  *sql.DB
}

func startMySQL(settings Settings) (Server, error) {
	flush := "--innodb-flush-log-at-trx-commit=1"
	if settings.SkipDisk {
		flush = "--innodb-flush-log-at-trx-commit=2" // each second
	}
	s, err := sqltest.RunMySQL(flush, "--max-connections=200")
	if err != nil {
		return nil, err
	}
	dsn := "test@tcp(" + s.Addr() + ")/test?interpolateParams=true"
	db, err := prepare(s, dsn, peer.MySQLSchema())
	return &mySQL{s, dsn, db}, err
}

func (m *mySQL) Reach(t *peer.Target) { t.MySQL = m.dsn }

// Empty empties the tables. Locks of connections end with these.
func (m *mySQL) Empty(ctx context.Context) error {
	for _, table := range peer.Tables() {
		if _, err := m.db.ExecContext(ctx, "TRUNCATE TABLE "+table); err != nil {
			return err
		}
	}
	return nil
}

// Done counts statements, those that begin and end transactions included.
func (m *mySQL) Done(ctx context.Context) (Work, error) {
	w := Work{CPU: worked(m.PID())}
	var name string
	err := m.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &w.Requests)
	return w, err
}

func (m *mySQL) Close() {
	_ = m.db.Close()
	m.Server.Close()
}
