package open

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// mysqlTarget returns the Target of a MySQL or a MariaDB:
// mysql://[user[:password]@]host[:port],…/database. The parameters are tls (true, false,
// preferred or skip-verify), socket (a file, in place of the host), layout (lease or
// shedlock), table, create and dial_timeout.
func mysqlTarget(r Request) (*Target, error) {
	m, err := parseMySQL(r)
	if err != nil {
		return nil, err
	}
	shape := func() driver.Backend { return mysqlhold.New(nil, m.options) }
	return &Target{shape: shape, open: m.open}, nil
}

// database has the settings of a MySQL database before the first connection.
type database struct {
	config  *mysql.Config // without an address
	addrs   []string
	options *mysqlhold.Options
	create  bool
}

func parseMySQL(r Request) (*database, error) {
	a, err := cut(MySQL, r.Access.URL, "create", "dial_timeout", "layout", "socket", "table", "tls")
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.User, config.Passwd = cmp.Or(r.Access.Username, a.username), cmp.Or(r.Access.Password, a.password)
	config.InterpolateParams = true // one round trip for a call, in place of two
	config.Logger = &mysql.NopLogger{}
	d := &database{config: config, options: &mysqlhold.Options{Table: a.query.Get("table")}}
	if config.Net, d.addrs, err = mysqlAddrs(a); err != nil {
		return nil, err
	}
	if config.DBName = strings.Trim(a.path, "/"); config.DBName == "" || strings.Contains(config.DBName, "/") {
		return nil, errors.New("mysql URL names no database: write mysql://user@host:3306/database")
	}
	inURL, err := a.duration("dial_timeout")
	if err != nil {
		return nil, err
	}
	config.Timeout = dialLimit(r.Access, inURL)
	if err := mysqlTLS(config, a, r.Access); err != nil {
		return nil, err
	}
	if d.create, err = a.yes("create"); err != nil {
		return nil, err
	}
	shed, err := a.shedLock()
	if shed {
		d.options.Layout = mysqlhold.ShedLock
	}
	return d, err
}

func mysqlAddrs(a address) (network string, addrs []string, err error) {
	if socket := a.query.Get("socket"); a.query.Has("socket") {
		if a.hosts != "" || !strings.HasPrefix(socket, "/") {
			return "", nil, errors.New("mysql URL has a \"socket\", which is the whole path of a file and stands in place of a host: write mysql://user@/database?socket=/run/mysqld/mysqld.sock")
		}
		return "unix", []string{socket}, nil
	}
	addrs, err = a.addrs("3306")
	return "tcp", addrs, err
}

func mysqlTLS(config *mysql.Config, a address, reach access.Access) error {
	mode := a.query.Get("tls")
	if a.query.Has("tls") && !slices.Contains([]string{"true", "false", "preferred", "skip-verify"}, mode) {
		return errors.New("mysql URL has a \"tls\" that is none of true, false, preferred and skip-verify")
	}
	own, err := reach.TLS()
	switch {
	case err != nil:
		return err
	case own == nil:
		config.TLSConfig = mode
	case config.Net == "unix":
		return errors.New("there are settings for TLS, but the URL leads to a socket of this machine")
	case mode == "false" || mode == "preferred" || mode == "skip-verify":
		return fmt.Errorf("there are settings for TLS, but the URL has tls=%s, which contradicts them: use tls=true", mode)
	default:
		config.TLS = own
	}
	return nil
}

// connector returns what makes the connections. A single host may be read-only: doctor
// reports that.
func (d *database) connector() (sqldriver.Connector, error) {
	hosts := &mysqlHosts{limit: d.config.Timeout}
	for _, addr := range d.addrs {
		config := d.config.Clone()
		config.Addr = addr
		config.RejectReadOnly = len(d.addrs) > 1 // after a failover a connection to the old primary is closed
		c, err := mysql.NewConnector(config)
		if err != nil {
			return nil, fmt.Errorf("mysql URL: %w", err)
		}
		hosts.all = append(hosts.all, mysqlHost{c, addr})
	}
	if len(hosts.all) == 1 {
		return hosts.all[0].Connector, nil
	}
	return hosts, nil
}

func (d *database) open(ctx context.Context) (*Store, error) {
	connector, err := d.connector()
	if err != nil {
		return nil, err
	}
	db, where := sql.OpenDB(connector), strings.Join(d.addrs, ", ")
	backend := mysqlhold.New(db, d.options)
	s := &Store{Kind: MySQL, Backend: backend, Layout: layoutName(d.options.Layout == mysqlhold.ShedLock), Ask: examine.MySQL(db, where), where: where, trouble: mysqlTrouble(db), close: func() { _ = db.Close() }, ping: func(ctx context.Context) (string, error) {
		var version string
		if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
			return "", mysqlError(where, err)
		}
		return version, nil
	}}
	limited, cancel := context.WithTimeout(ctx, d.config.Timeout*time.Duration(len(d.addrs)))
	defer cancel()
	if err = db.PingContext(limited); err != nil {
		err = mysqlError(where, err)
	} else if d.create {
		err = backend.CreateTable(limited)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// mysqlError returns the error for err, which came before a request for a lock: a refused
// user, or an unreachable store.
func mysqlError(where string, err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		switch e.Number {
		case 1044, 1045, 1049, 1130, 1251, 1698, 2061: // database, login, no such database, host, the way of logging in
			return denied(MySQL, where, err)
		}
	}
	return unreachable(MySQL, where, err)
}
