//go:build unix

package sqltest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// RunMariaDB runs a MariaDB server outside of a test, which also listens on the loopback
// and has an empty database "test". options are those of the server. The caller must call
// Close.
func RunMariaDB(options ...string) (*Server, error) {
	s, err := makeMariaDB()
	if err != nil {
		return nil, err
	}
	return s.listen(mariadbd(), options)
}

// RunMySQL is RunMariaDB with the server that MySQLEnv names; without it MariaDB runs.
func RunMySQL(options ...string) (*Server, error) {
	daemon := os.Getenv(MySQLEnv)
	if daemon == "" {
		return RunMariaDB(options...)
	}
	s, err := makeMySQL(daemon)
	if err != nil {
		return nil, err
	}
	return s.listen(daemon, append(options, onlyClassic()...))
}

// listen starts a server whose folder of data is made. It closes s where that fails.
func (s *Server) listen(daemon string, options []string) (*Server, error) {
	var err error
	if s.port, err = redistest.FreePort(); err == nil {
		err = s.serveMySQL(daemon, append(options, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.port)))
	}
	if err == nil {
		err = s.open()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// onlyClassic is options of MySQL, that keep it from opening what no test uses.
func onlyClassic() []string { return []string{"--mysqlx=OFF", "--secure-file-priv=NULL"} }

func mariadbd() string { return program("/usr/sbin/mariadbd", "mariadbd") }

// open lets clients in that come over the loopback.
func (s *Server) open() error {
	db, err := sql.Open(s.Driver, s.Name)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range []string{"CREATE USER test@'%'", "GRANT ALL ON *.* TO test@'%'"} {
		if _, err := db.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}

// makeMariaDB makes the folder of the data.
func makeMariaDB() (*Server, error) {
	install := program("/usr/bin/mariadb-install-db", "mariadb-install-db")
	if mariadbd() == "" || install == "" {
		return nil, fmt.Errorf("MariaDB (mariadbd and mariadb-install-db; Debian: apt-get install mariadb-server): %w", ErrMissing)
	}
	s, err := makeServer("mysql")
	if err != nil {
		return nil, err
	}
	if err := s.fill(install, "--no-defaults", "--datadir="+s.data(), "--auth-root-authentication-method=normal", "--skip-test-db", "--user="+s.user, s.tmpdir()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// makeMySQL makes the folder of the data of a MySQL.
func makeMySQL(daemon string) (*Server, error) {
	s, err := makeServer("root") // it may be in a folder that nobody else may read
	if err != nil {
		return nil, err
	}
	if err := s.fill(daemon, "--no-defaults", "--initialize-insecure", "--datadir="+s.data(), "--user="+s.user, s.tmpdir()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// serveMySQL starts a server whose folder of data is made, and makes a database there.
func (s *Server) serveMySQL(daemon string, options []string) error {
	socket := filepath.Join(s.dir, "s")
	s.Driver, s.polite, s.program = "mysql", syscall.SIGTERM, daemon
	s.args = append([]string{
		"--no-defaults", "--datadir=" + s.data(), "--socket=" + socket,
		"--user=" + s.user, "--max-connections=150", "--back-log=400", "--innodb-flush-log-at-trx-commit=0",
		"--pid-file=" + filepath.Join(s.dir, "pid"), s.tmpdir(),
	}, options...)
	s.Name = "root@unix(" + socket + ")/"
	if err := s.Restart(); err != nil {
		return err
	}
	db, err := sql.Open(s.Driver, s.Name)
	if err != nil {
		return err
	}
	defer db.Close()
	s.Name += "test"
	_, err = db.Exec("CREATE DATABASE test")
	return err
}

// tmpdir is an option: a server that starts deletes temporary tables in a folder that it
// shares with others, also theirs.
func (s *Server) tmpdir() string { return "--tmpdir=" + s.dir }
