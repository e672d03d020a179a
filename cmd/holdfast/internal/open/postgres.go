package open

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounded"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// postgres has the settings of a PostgreSQL database before the first connection.
type postgres struct {
	config  *pgxpool.Config
	options *pghold.Options
	layout  string
	create  bool
}

// parsePostgres reads a URL as libpq and pgx know it, with four more parameters. The parameters
// layout, table and create are as for MySQL. The parameter listen is "off", or a host and port.
// They name the server from which notifications come, if the rest of the URL leads to a pooler.
func parsePostgres(r Request) (*postgres, error) {
	a := cut(Postgres, r.Access)
	p := &postgres{options: &pghold.Options{Table: a.query.Get("table"), Logger: r.Logger}, layout: a.layout(), create: a.create()}
	if p.layout == layoutShedLock {
		p.options.Layout = pghold.ShedLock
	}
	direct := a.listen()
	for _, name := range []string{"sslcert", "sslkey", "sslrootcert", "passfile", "service", "servicefile"} {
		if r.Access.Found && a.query.Has(name) {
			a.wrong("has %q, which names a file: name the configuration with --config, or use tls below postgres", name)
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	p.config = a.postgresConfig(url.Values{})
	if direct != nil && a.err == nil {
		listen := a.postgresConfig(direct).ConnConfig
		listen.Password = p.config.ConnConfig.Password // a file of passwords may list only the pooler
		p.options.Listen = listen
	}
	return p, a.err
}

// listen returns the parameters that make the URL lead to the server that sends notifications.
// It returns nil if notifications are off, or if the table is that of ShedLock, for which there
// are no notifications.
func (a *address) listen() url.Values {
	direct, shed := a.query.Get("listen"), a.layout() == layoutShedLock
	switch {
	case direct == "off" || shed && !a.query.Has("listen"):
		return nil
	case shed:
		a.wrong(`has a "listen", but nobody notifies with layout=shedlock: leave it out`)
		return nil
	case !a.query.Has("listen"):
		return url.Values{}
	}
	addr, err := redisurl.HostPort(direct, a.kind.scheme().port)
	if err != nil {
		a.wrong(`has a "listen" that is neither off nor a host and port: %w`, err)
	}
	host, port, _ := net.SplitHostPort(addr)
	return url.Values{"host": {host}, "port": {port}}
}

// postgresConfig returns the settings of the connections. The parameters in `more` replace those
// of the URL with the same names. If postgresConfig records an error, it may return nil.
func (a *address) postgresConfig(more url.Values) *pgxpool.Config {
	ours, err := a.access.TLS()
	a.fail(err)
	switch mode := a.query.Get("sslmode"); {
	case ours == nil:
	case mode == "":
		more.Set("sslmode", "verify-full")
	case mode == "disable", mode == "allow", mode == "prefer":
		a.fail(fmt.Errorf("there are settings for TLS, but the URL has sslmode=%s, with which it may be left out: use sslmode=verify-full", mode))
	}
	pool, err := pgxpool.ParseConfig(a.postgresURL(more))
	if err != nil {
		a.fail(postgresURLError(err))
		return nil
	}
	config := pool.ConnConfig
	if a.access.Found {
		config.Password = cmp.Or(a.password, a.query.Get("password")) // and not the password of PGPASSWORD or ~/.pgpass
	}
	// Operators see this name in pg_stat_activity, as they see that of psql.
	config.RuntimeParams["application_name"] = cmp.Or(config.RuntimeParams["application_name"], "holdfast")
	config.ConnectTimeout = cmp.Or(a.access.DialTimeout, config.ConnectTimeout, dialTimeout)
	// A dead connection is closed after 25 seconds. With the defaults it would take two and a
	// half minutes.
	config.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}).DialContext
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		both := bounded.Postgres(r, w) // inside of TLS
		return pgproto3.NewFrontend(both, both)
	}
	if ours != nil {
		a.fail(useCertificates(config, ours))
	}
	return pool
}

// postgresURL returns the URL for pgx, without the parameters that pgx does not know. The URL
// has the user and the password of the flags, if they are given, so that pgx searches a file of
// passwords for that user.
func (a *address) postgresURL(more url.Values) string {
	if a.access.Username != "" {
		more.Set("user", a.access.Username)
	}
	if a.access.Password != "" {
		more.Set("password", a.access.Password)
	}
	// All other text reaches pgx unchanged, because pgx reads spaces and pluses as libpq
	// does. If two parameters have the same name, pgx uses the second.
	base, query, _ := strings.Cut(a.access.URL, "?")
	pairs := append(strings.Split(query, "&"), redisurl.EncodeQuery(more))
	pairs = slices.DeleteFunc(pairs, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, _ = url.PathUnescape(name)
		return pair == "" || slices.Contains([]string{"layout", "table", "create", "listen"}, name)
	})
	return a.scheme + base[len(a.scheme):] + "?" + strings.Join(pairs, "&")
}

// postgresURLError returns the reason that pgx gives for a URL that cannot be used, without
// the URL.
func postgresURLError(err error) error {
	// The text begins with the URL; what follows is the reason.
	text := err.Error()
	at := strings.LastIndex(text, "`: ")
	if at < 0 {
		return errors.New("postgres URL cannot be read")
	}
	return fmt.Errorf("postgres URL: %s", text[at+len("`: "):])
}

// useCertificates makes every connection use the certificates of the flags.
func useCertificates(config *pgx.ConnConfig, ours *tls.Config) error {
	first := &pgconn.FallbackConfig{Host: config.Host, TLSConfig: config.TLSConfig}
	for _, host := range append(config.Fallbacks, first) {
		if host.TLSConfig == nil {
			return errors.New("there are settings for TLS, but the URL leads to a socket of this machine")
		}
		host.TLSConfig = ours.Clone()
		host.TLSConfig.ServerName = cmp.Or(ours.ServerName, host.Host)
	}
	config.TLSConfig = first.TLSConfig
	return nil
}

// postgresHosts returns where the servers are.
func postgresHosts(config *pgx.ConnConfig) string {
	all := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, f := range config.Fallbacks {
		all = append(all, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), ", ")
}

func (p *postgres) backend() driver.Backend { return pghold.New(nil, p.options) }

func (p *postgres) open(ctx context.Context) (*Store, error) {
	hosts := postgresHosts(p.config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, p.config)
	if err != nil {
		return nil, failure(Postgres, hosts, err)
	}
	ask := func(ctx context.Context) (state, error) {
		const query = "SELECT current_setting('server_version'), current_setting('transaction_read_only')::bool"
		return stateIn(pool.QueryRow(ctx, query, pgx.QueryExecModeExec))
	}
	s := &Store{
		Kind: Postgres, Backend: pghold.New(pool, p.options), Layout: p.layout, hosts: hosts, state: ask, close: pool.Close,
		examine: func(ctx context.Context, _ time.Duration) (examined, error) {
			return examinePostgres(ctx, pool, p.options)
		},
	}
	several := time.Duration(1 + len(p.config.ConnConfig.Fallbacks))
	return s.ready(ctx, several*p.config.ConnConfig.ConnectTimeout, p.create)
}

// postgresSettings has what a PostgreSQL shows of itself to every user.
type postgresSettings struct {
	Version     string
	Standby     bool
	ReadOnly    bool
	Commit      string // synchronous_commit
	Synchronous string // synchronous_standby_names
	Fsync       string
	Autovacuum  string
	Most, Now   int    // the limit of connections, and those in use
	Replicas    int    // the number of standbys that receive the log of this server
	Session     uint32 // the process ID of the server's process for the connection

	Pooled bool `db:"-"` // the connection leads to a pooler
	Behind bool `db:"-"` // Listen names the same host and port as the connection
}

const postgresQuery = `SELECT current_setting('server_version') AS version,
 pg_is_in_recovery() AS standby,
 current_setting('transaction_read_only')::bool AS read_only,
 current_setting('synchronous_commit') AS commit,
 current_setting('synchronous_standby_names') AS synchronous,
 current_setting('fsync') AS fsync,
 current_setting('autovacuum') AS autovacuum,
 current_setting('max_connections')::int AS most,
 pg_backend_pid() AS session,
 (SELECT sum(numbackends) FROM pg_stat_database)::int AS now,
 (SELECT count(*) FROM pg_stat_replication AS r WHERE coalesce(application_name, '') <> 'pg_basebackup' AND NOT EXISTS
  (SELECT 1 FROM pg_replication_slots AS s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))::int AS replicas`

// examinePostgres asks the server to which `pool` connects. The parameter `layout` has the
// options of the backend.
func examinePostgres(ctx context.Context, pool *pgxpool.Pool, layout *pghold.Options) (examined, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return examined{}, fmt.Errorf("ask PostgreSQL for its settings: %w", err)
	}
	defer conn.Release()
	// A pooler in transaction mode knows no prepared statements.
	rows, _ := conn.Query(ctx, postgresQuery, pgx.QueryExecModeExec) // CollectExactlyOneRow returns the error
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[postgresSettings])
	if err != nil {
		return examined{}, fmt.Errorf("ask PostgreSQL for its settings: %w", err)
	}
	// A pooler uses a session that differs from the one that it named when the client connected.
	s.Pooled = s.Session != conn.Conn().PgConn().PID()
	config := pool.Config().ConnConfig
	s.Behind = layout.Listen != nil && layout.Listen.Host == config.Host && layout.Listen.Port == config.Port
	server := doctor.Server{Address: net.JoinHostPort(config.Host, fmt.Sprint(config.Port)), Version: "PostgreSQL " + s.Version, Role: "primary"}
	all := examined{deployment: "standalone", findings: s.findings(layout)}
	all.findings = append(all.findings, openTransactions(ctx, conn.Conn()), clock(ctx, func(ctx context.Context) (at time.Time, err error) {
		err = conn.QueryRow(ctx, "SELECT clock_timestamp()", pgx.QueryExecModeExec).Scan(&at)
		return at, err
	}))
	if s.Replicas > 0 {
		all.deployment = "replicated"
	}
	if s.Standby {
		all.deployment, server.Role = "replicated", "standby"
	}
	all.servers = []doctor.Server{server}
	return all, nil
}

func (s *postgresSettings) findings(layout *pghold.Options) []doctor.Finding {
	found := []doctor.Finding{
		s.writes(), s.replication(), s.durability(),
		connections(s.Now, s.Most, "increase max_connections, or connect through a pooler"),
		because(saw("autovacuum", worse(s.Autovacuum != "on", doctor.Warning), "autovacuum is %s", s.Autovacuum),
			"every renewal leaves a dead row, so the table of locks grows and becomes slow", "ALTER SYSTEM SET autovacuum = on"),
	}
	if layout.Layout == pghold.ShedLock { // it has no notifications, and no setting changes that
		return found
	}
	return append(found, s.notifications(layout.Listen != nil))
}

// notifications judges whether waiters are notified of releases. Without notifications, waiters
// must poll.
func (s *postgresSettings) notifications(wanted bool) doctor.Finding {
	const id = "notifications"
	f := saw(id, doctor.Note, "notifications are off in the URL (listen=off)")
	switch {
	case wanted && s.Pooled && s.Behind:
		f = saw(id, doctor.Note, "the connection leads to a pooler, and a pooler does not pass on notifications")
	case wanted:
		return saw(id, doctor.OK, "waiters receive notifications")
	}
	return because(f,
		"waiters must poll, and notice a release later", "if the URL names a pooler, add listen=HOST:PORT with the address of the server itself")
}

func (s *postgresSettings) writes() doctor.Finding {
	switch {
	case s.Standby:
		return because(saw("writes", doctor.Danger, "the server is a standby"), "a standby grants no lock", "name the primary in the URL, or name several hosts and add target_session_attrs=read-write")
	case s.ReadOnly:
		return because(saw("writes", doctor.Danger, "transactions are read-only"), "the server cannot grant a lock", "set default_transaction_read_only = off for this user and this database")
	}
	return saw("writes", doctor.OK, "the server accepts writes")
}

// replication judges whether a standby that takes over knows every lock.
func (s *postgresSettings) replication() doctor.Finding {
	const id = "replication"
	waits := s.Synchronous != "" && (s.Commit == "on" || s.Commit == "remote_apply")
	switch {
	case s.Replicas == 0 && s.Synchronous == "":
		return saw(id, doctor.OK, "the server has no standby")
	case waits:
		return saw(id, doctor.OK, "a commit waits for %s", s.Synchronous)
	}
	return because(saw(id, doctor.Warning, "standbys: %d; synchronous_standby_names is %q, synchronous_commit is %s", s.Replicas, s.Synchronous, s.Commit),
		"a standby that takes over may lack the newest locks, and grants them again to other clients",
		"set synchronous_standby_names = 'ANY 1 (*)', and synchronous_commit = on for the user of the locks")
}

// durability judges whether a crash of the server can lose locks.
func (s *postgresSettings) durability() doctor.Finding {
	severity := doctor.OK
	switch {
	case s.Fsync != "on":
		severity = doctor.Danger
	case s.Commit == "off":
		severity = doctor.Warning
	}
	return because(saw("durability", severity, "fsync is %s, synchronous_commit is %s", s.Fsync, s.Commit),
		"a server that crashes forgets the newest locks, and grants them again to other clients", "set fsync = on, and ALTER ROLE <user> SET synchronous_commit = on")
}
