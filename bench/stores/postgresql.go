package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// postgreSQL is one server. It counts statements with an extension that is installed with
// it.
type postgreSQL struct {
	*process
	url string
	db  *sql.DB
}

func startPostgreSQL(dir string) (Server, error) {
	initdb, err := program("/usr/lib/postgresql/*/bin/initdb", "postgresql")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	cmd, err := as(exec.Command(initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C"), "postgres", dir)
	if err != nil {
		return nil, err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	addr, err := address()
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	p := &postgreSQL{url: "postgres://bench@" + addr + "/postgres?sslmode=disable"}
	if p.db, err = sql.Open("pgx", p.url); err != nil {
		return nil, err
	}
	cmd, err = as(exec.Command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-h", host, "-p", port,
		"-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_preload_libraries=pg_stat_statements"), "postgres", dir)
	if err == nil {
		p.process, err = run(cmd, p.db.PingContext)
	}
	if err == nil {
		err = p.prepare()
	}
	if err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	return p, nil
}

// prepare makes the tables of the peers.
func (p *postgreSQL) prepare() error {
	for _, statement := range append(peer.PostgreSQLSchema(), "CREATE EXTENSION pg_stat_statements") {
		if _, err := p.db.Exec(statement); err != nil {
			p.process.Close()
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (p *postgreSQL) Reach(t *peer.Target) { t.PostgreSQL = p.url }

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
	_ = p.cmd.Process.Signal(syscall.SIGINT) // which does not wait for clients
	p.process.Close()
}
