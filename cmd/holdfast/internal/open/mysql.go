package open

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// database has the settings of a MySQL database before the first connection.
type database struct {
	config  *mysql.Config // without an address
	addrs   []string
	options *mysqlhold.Options
	layout  string
	create  bool
}

// parseMySQL reads mysql://[user[:password]@]host[:port],…/database. The parameters are tls
// (true, false, preferred or skip-verify), socket (a file, in place of the host), layout
// (lease or shedlock), table, create and dial_timeout.
func parseMySQL(r Request) (*database, error) {
	a := cut(MySQL, r.Access, "create", "dial_timeout", "layout", "socket", "table", "tls")
	config := mysql.NewConfig()
	config.User, config.Passwd = a.username, a.password
	config.InterpolateParams = true // one round trip for a call, in place of two
	config.Logger = &mysql.NopLogger{}
	config.Timeout = a.dialLimit()
	d := &database{config: config, options: &mysqlhold.Options{Table: a.query.Get("table")}, layout: a.layout(), create: a.create()}
	if d.layout == layoutShedLock {
		d.options.Layout = mysqlhold.ShedLock
	}
	config.Net, d.addrs = "tcp", []string{a.query.Get("socket")}
	switch {
	case !a.query.Has("socket"):
		d.addrs = a.addrs()
	case a.hosts != "" || !strings.HasPrefix(d.addrs[0], "/"):
		a.wrong("has a \"socket\", which is the whole path of a file and stands in place of a host: write mysql://user@/database?socket=/run/mysqld/mysqld.sock")
	default:
		config.Net = "unix"
	}
	if config.DBName = strings.Trim(a.path, "/"); config.DBName == "" || strings.Contains(config.DBName, "/") {
		a.wrong("names no database: write mysql://user@host:3306/database")
	}
	a.fail(mysqlTLS(config, a))
	return d, a.err
}

func mysqlTLS(config *mysql.Config, a *address) error {
	mode := a.choice("tls", "true", "false", "preferred", "skip-verify")
	own, err := a.access.TLS()
	switch {
	case err != nil:
		return err
	case own == nil:
		config.TLSConfig = mode
	case config.Net == "unix":
		return errors.New("there are settings for TLS, but the URL leads to a socket of this machine")
	case mode != "" && mode != "true":
		return fmt.Errorf("there are settings for TLS, but the URL has tls=%s, which contradicts them: use tls=true", mode)
	default:
		config.TLS = own
	}
	return nil
}

func (d *database) backend() driver.Backend { return mysqlhold.New(nil, d.options) }

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

// askMySQL returns the version of a server, and whether it is read-only for the user. Users
// with one of these privileges may write on a server that is read-only.
const askMySQL = `SELECT VERSION(), @@global.read_only AND NOT EXISTS (SELECT 1 FROM information_schema.user_privileges
 WHERE REPLACE(grantee, '''', '') = CURRENT_USER() AND privilege_type IN ('SUPER', 'CONNECTION_ADMIN', 'READ ONLY ADMIN', 'READ_ONLY ADMIN'))`

func (d *database) open(ctx context.Context) (*Store, error) {
	connector, err := d.connector()
	if err != nil {
		return nil, err
	}
	db, hosts := sql.OpenDB(connector), strings.Join(d.addrs, ", ")
	ask := func(ctx context.Context) (state, error) { return stateIn(db.QueryRowContext(ctx, askMySQL)) }
	s := &Store{Kind: MySQL, Backend: mysqlhold.New(db, d.options), Layout: d.layout, ask: examine.MySQL(db, hosts), hosts: hosts, state: ask, close: func() { _ = db.Close() }}
	return s.ready(ctx, d.config.Timeout*time.Duration(len(d.addrs)), d.create)
}
