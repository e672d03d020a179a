package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// mySQLEnv is the variable with the program of a MySQL server; without it MariaDB runs.
const mySQLEnv = "HOLDFAST_MYSQL"

// mySQL is one server of MariaDB or MySQL.
type mySQL struct {
	*process
	dsn string
	db  *sql.DB
}

func startMySQL(dir string) (Server, error) {
	install, daemon, err := mySQLServer(dir, os.Getenv(mySQLEnv))
	if err != nil {
		return nil, err
	}
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(install.Path), err, out)
	}
	addr, err := address()
	if err != nil {
		return nil, err
	}
	m := &mySQL{dsn: "root@tcp(" + addr + ")/mysql?interpolateParams=true"}
	if m.db, err = sql.Open("mysql", m.dsn); err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	daemon.Args = append(daemon.Args, "--bind-address="+host, "--port="+port,
		"--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--max-connections=200")
	if m.process, err = run(daemon, m.db.PingContext); err == nil {
		err = m.prepare()
	}
	if err != nil {
		return nil, errors.Join(err, m.db.Close())
	}
	return m, nil
}

// mySQLServer returns what makes the folder of the data, and what serves it: the program of
// a MySQL, or MariaDB where there is none.
func mySQLServer(dir, path string) (install, daemon *exec.Cmd, err error) {
	data, user := "--datadir="+filepath.Join(dir, "data"), "mysql"
	if path != "" {
		user = "root" // it may be in a folder that nobody else may read
		install = exec.Command(path, "--no-defaults", data, "--user=root", "--initialize-insecure")
		daemon = exec.Command(path, "--no-defaults", data, "--user=root", "--mysqlx=OFF", "--secure-file-priv=NULL")
	} else if install, daemon, err = mariaDB(data); err != nil {
		return nil, nil, err
	}
	if install, err = as(install, user, dir); err == nil {
		daemon, err = as(daemon, user, dir)
	}
	return install, daemon, err
}

func mariaDB(data string) (install, daemon *exec.Cmd, err error) {
	path, err := program("/usr/bin/mariadb-install-db", "mariadb-server")
	if err != nil {
		return nil, nil, err
	}
	install = exec.Command(path, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db")
	path, err = program("/usr/sbin/mariadbd", "mariadb-server")
	return install, exec.Command(path, "--no-defaults", data), err
}

// prepare makes a database and the tables of the peers.
func (m *mySQL) prepare() error {
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

// Close ends the server: SIGTERM is its polite end.
func (m *mySQL) Close() {
	_ = m.db.Close()
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	m.process.Close()
}
