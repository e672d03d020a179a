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

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// mariaDB is one server.
type mariaDB struct {
	*process
	dsn string
	db  *sql.DB
}

func startMariaDB(dir string) (Server, error) {
	install, err := program("/usr/bin/mariadb-install-db", "mariadb-server")
	if err != nil {
		return nil, err
	}
	daemon, err := program("/usr/sbin/mariadbd", "mariadb-server")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	cmd, err := as(exec.Command(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"), "mysql", dir)
	if err != nil {
		return nil, err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	addr, err := address()
	if err != nil {
		return nil, err
	}
	m := &mariaDB{dsn: "root@tcp(" + addr + ")/mysql?interpolateParams=true"}
	if m.db, err = sql.Open("mysql", m.dsn); err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	cmd, err = as(exec.Command(daemon, "--no-defaults", "--datadir="+data, "--bind-address="+host, "--port="+port,
		"--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--max-connections=200"), "mysql", dir)
	if err == nil {
		m.process, err = run(cmd, m.db.PingContext)
	}
	if err == nil {
		err = m.prepare()
	}
	if err != nil {
		return nil, errors.Join(err, m.db.Close())
	}
	return m, nil
}

// prepare makes a database and the tables of the peers.
func (m *mariaDB) prepare() error {
	setup := m.db
	defer setup.Close()
	m.dsn = strings.Replace(m.dsn, "/mysql?", "/bench?", 1)
	db, err := sql.Open("mysql", m.dsn)
	if err != nil {
		return err
	}
	m.db = db
	_, err = setup.Exec("CREATE DATABASE bench")
	for _, statement := range peer.MySQLSchema() {
		if err == nil {
			_, err = m.db.Exec(statement)
		}
	}
	if err != nil {
		m.process.Close()
	}
	return err
}

func (m *mariaDB) Reach(t *peer.Target) { t.MySQL = m.dsn }

// Empty empties the tables. Locks of connections end with these.
func (m *mariaDB) Empty(ctx context.Context) error {
	for _, table := range peer.Tables() {
		if _, err := m.db.ExecContext(ctx, "TRUNCATE TABLE "+table); err != nil {
			return err
		}
	}
	return nil
}

// Done counts statements, those that begin and end transactions included.
func (m *mariaDB) Done(ctx context.Context) (Work, error) {
	w := Work{CPU: worked(m.PID())}
	var name string
	err := m.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &w.Requests)
	return w, err
}

// Close ends the server: SIGTERM is its polite end.
func (m *mariaDB) Close() {
	_ = m.db.Close()
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	m.process.Close()
}
