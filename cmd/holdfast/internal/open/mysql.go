package open

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
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

// connector returns the connector that opens the connections. Of several hosts, it uses one
// that takes writes. It also uses a single host that is read-only, which "holdfast doctor"
// reports.
func (d *database) connector() (sqldriver.Connector, error) {
	hosts := &mysqlHosts{limit: d.config.Timeout}
	for _, addr := range d.addrs {
		config := d.config.Clone()
		config.Addr = addr
		config.RejectReadOnly = len(d.addrs) > 1 // after a failover a connection to the old primary is closed
		c, err := newMySQL(config, &refusals{})
		if err != nil {
			return nil, err
		}
		hosts.all = append(hosts.all, mysqlHost{c, addr})
	}
	if len(hosts.all) == 1 {
		return hosts.all[0].Connector, nil
	}
	return hosts, nil
}

// askMySQL is the query for the version of a server, and for whether the server is read-only for
// the user. A user with one of the privileges in the query may write to a read-only server.
const askMySQL = `SELECT VERSION(), @@global.read_only AND NOT EXISTS (SELECT 1 FROM information_schema.user_privileges
 WHERE REPLACE(grantee, '''', '') = CURRENT_USER() AND privilege_type IN ('SUPER', 'CONNECTION_ADMIN', 'READ ONLY ADMIN', 'READ_ONLY ADMIN'))`

func (d *database) open(ctx context.Context) (*Store, error) {
	connector, err := d.connector()
	if err != nil {
		return nil, err
	}
	db, hosts := sql.OpenDB(connector), strings.Join(d.addrs, ", ")
	ask := func(ctx context.Context) (state, error) { return stateIn(db.QueryRowContext(ctx, askMySQL)) }
	s := &Store{
		Kind: MySQL, Backend: mysqlhold.New(db, d.options), Layout: d.layout, hosts: hosts, state: ask, close: func() { _ = db.Close() },
		examine: func(ctx context.Context, _ time.Duration) (examined, error) { return examineMySQL(ctx, db, hosts) },
	}
	return s.ready(ctx, d.config.Timeout*time.Duration(len(d.addrs)), d.create)
}

// The queries for the variables and for the status of a server. The result has no row for a
// name that the server does not know, or that the user may not read.
const (
	askVariables = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only', 'max_connections',
 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'wsrep_on')`
	askFigures = `SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'wsrep_cluster_size', 'wsrep_cluster_status',
 'Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status')`
)

// examineMySQL asks the MySQL or MariaDB at addr.
func examineMySQL(ctx context.Context, db *sql.DB, addr string) (examined, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	said := make(map[string]string)
	for _, query := range []string{askVariables, askFigures} {
		if err := readPairs(ctx, db, query, said); err != nil {
			return examined{}, fmt.Errorf("ask the server for its settings: %w", err)
		}
	}
	all := examined{deployment: "standalone", findings: mysqlFindings(said)}
	all.findings = append(all.findings, clock(ctx, func(ctx context.Context) (time.Time, error) {
		var micros int64
		err := db.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&micros)
		return time.UnixMicro(micros), err
	}))
	switch {
	case said["wsrep_on"] == "ON":
		all.deployment = "galera"
	case said["log_bin"] == "ON":
		all.deployment = "standalone or replicated"
	}
	version, _, _ := strings.Cut(said["version"], "-")
	product := "MySQL "
	if strings.Contains(said["version"], "MariaDB") {
		product = "MariaDB "
	}
	all.servers = []doctor.Server{{Address: addr, Version: product + version}}
	return all, nil
}

// readPairs runs a query, and adds the names and values of its result to the map `said`.
func readPairs(ctx context.Context, db *sql.DB, query string, said map[string]string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		said[name] = value
	}
	return rows.Err()
}

// mysqlFindings judges the variables and the state of the server.
func mysqlFindings(said map[string]string) []doctor.Finding {
	readOnly := said["read_only"] == "ON"
	now, _ := strconv.Atoi(said["Threads_connected"])
	most, _ := strconv.Atoi(said["max_connections"])
	found := []doctor.Finding{
		because(saw("writes", worse(readOnly, doctor.Danger), "read_only is %s", said["read_only"]),
			"a server that is read-only grants no lock", "name the server that accepts writes in the URL"),
		mysqlDurability(said),
		connections(now, most, "increase max_connections, or use fewer connections in each program"),
	}
	if said["wsrep_on"] == "ON" {
		return append(found, galera(said))
	}
	return append(found, mysqlReplication(said))
}

// mysqlDurability judges whether a crash of the server can lose locks. For example, if
// sync_binlog is not 1, a commit may be missing in the binary log after a crash. In that case
// the server undoes the commit at its next start.
func mysqlDurability(said map[string]string) doctor.Finding {
	flush, binlog := said["innodb_flush_log_at_trx_commit"], said["sync_binlog"]
	f := saw("durability", doctor.OK, "innodb_flush_log_at_trx_commit is %s, sync_binlog is %s", flush, binlog)
	switch {
	case flush == "":
		return saw("durability", doctor.Unknown, "the server does not report innodb_flush_log_at_trx_commit")
	case flush != "1" || said["log_bin"] == "ON" && binlog != "1":
		f.Severity = doctor.Warning
	}
	return because(f, "a server that crashes forgets the newest locks, and grants them again to other clients",
		"set innodb_flush_log_at_trx_commit = 1, and also sync_binlog = 1 if there is a binary log")
}

// mysqlReplication judges whether a replica that takes over knows every lock. It does not
// count the replicas, because users may lack the permission for that.
func mysqlReplication(said map[string]string) doctor.Finding {
	const id = "replication"
	waits := said["Rpl_semi_sync_master_status"] == "ON" || said["Rpl_semi_sync_source_status"] == "ON"
	switch {
	case said["log_bin"] != "ON":
		return saw(id, doctor.OK, "the server has no binary log, so it has no replicas")
	case waits:
		return saw(id, doctor.OK, "a commit waits for a replica (semi-synchronous)")
	}
	return because(saw(id, doctor.Note, "the server has a binary log, but commits do not wait for replicas"),
		"a replica that takes over may lack the newest locks, and grants them again to other clients",
		"use semi-synchronous replication if replicas take over")
}

// galera judges a server of a Galera cluster, in which every server takes writes.
func galera(said map[string]string) doctor.Finding {
	f := saw("galera", doctor.Warning, "a Galera cluster of %s, status %s", said["wsrep_cluster_size"], said["wsrep_cluster_status"])
	if said["wsrep_cluster_status"] != "Primary" {
		f.Severity = doctor.Danger
		return because(f, "this part of the cluster has no majority, and grants no lock", "connect to the part that has the majority")
	}
	return because(f, "locks in a Galera cluster were not tested: two servers that accept writes may see different states of the locks",
		"connect all programs that lock to the same server")
}
