package open

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/pghold"
)

// postgresTarget returns the Target of a PostgreSQL. Its URL is that of libpq, which pgx
// reads, with four more parameters: layout, table and create as for MySQL, and listen. If the
// URL leads to a pooler, listen has the host and port of the server itself, or "off".
func postgresTarget(r Request) (*Target, error) {
	p, err := parsePostgres(r)
	if err != nil {
		return nil, err
	}
	shape := func() driver.Backend { return pghold.New(nil, p.options) }
	return &Target{shape: shape, open: p.open}, nil
}

// postgres has the settings of a PostgreSQL database before the first connection.
type postgres struct {
	config  *pgxpool.Config
	options *pghold.Options
	create  bool
	where   string
}

func parsePostgres(r Request) (*postgres, error) {
	u, own, err := splitPostgres(r.Access)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(u)
	if err != nil {
		return nil, postgresURLError(err)
	}
	if r.Access.Found {
		config.ConnConfig.Password = cmp.Or(r.Access.Password, own.password, own.query.Get("password")) // and not that of PGPASSWORD or ~/.pgpass
	}
	// The name shows in pg_stat_activity, as those of psql and of other pools do.
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "holdfast")
	if r.Access.DialTimeout > 0 || config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = dialLimit(r.Access, 0)
	}
	config.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: postgresKeepAlive()}).DialContext
	if err := postgresTLS(config.ConnConfig, r.Access, own.query.Get("sslmode")); err != nil {
		return nil, err
	}
	p := &postgres{config: config, options: &pghold.Options{Table: own.query.Get("table"), Logger: r.Logger}, where: postgresHosts(config.ConnConfig)}
	if p.create, err = own.yes("create"); err != nil {
		return nil, err
	}
	shed, err := own.shedLock()
	if shed {
		p.options.Layout = pghold.ShedLock
	}
	if err != nil {
		return nil, err
	}
	p.options.Listen, err = postgresListen(config.ConnConfig, own, shed)
	return p, err
}

// postgresKeepAlive returns settings with which a dead connection is closed after 25 seconds.
// With the defaults it would take two and a half minutes.
func postgresKeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
}

// splitPostgres returns the URL for pgx. It has the user and the password of the flags, so
// that pgx searches a file of passwords for that user. It does not have the parameters that
// pgx does not know. own has the parts of the original URL.
func splitPostgres(a access.Access) (forPGX string, own address, err error) {
	own, err = cut(Postgres, a.URL)
	if err != nil {
		return "", own, err
	}
	for name := range own.query {
		if a.Found && slices.Contains(postgresFiles(), name) {
			return "", own, fmt.Errorf("postgres URL has %q, which names a file: name the configuration with --config, or use tls below postgres", name)
		}
	}
	config, err := a.TLS()
	if err != nil {
		return "", own, err
	}
	// All other text reaches pgx unchanged, because pgx reads spaces and pluses as libpq
	// does.
	path, query, _ := strings.Cut(own.raw.Tail, "?")
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, _ = url.PathUnescape(name)
		return pair == "" || slices.Contains([]string{"layout", "table", "create", "listen"}, name)
	})
	if config != nil && !own.query.Has("sslmode") {
		pairs = append(pairs, "sslmode=verify-full")
	}
	login := own.raw.Login
	switch user, password := cmp.Or(a.Username, own.username), cmp.Or(a.Password, own.password); {
	case a.Username == "" && a.Password == "":
	case password != "":
		login = url.UserPassword(user, password).String() + "@"
	default:
		login = url.User(user).String() + "@"
	}
	return own.scheme + "://" + login + own.hosts + path + "?" + strings.Join(pairs, "&"), own, nil
}

// postgresFiles are the parameters that name files.
func postgresFiles() []string {
	return []string{"sslcert", "sslkey", "sslrootcert", "passfile", "service", "servicefile"}
}

// postgresURLError returns the reason that pgx gives for a URL that cannot be used, without
// the URL.
func postgresURLError(err error) error {
	var parse *pgconn.ParseConfigError
	if !errors.As(err, &parse) {
		return errors.New("postgres URL: a pool_ parameter has a value that cannot be used")
	}
	// Its text begins with the URL; what follows is the reason.
	text := parse.Error()
	if at := strings.LastIndex(text, "`: "); at >= 0 {
		return fmt.Errorf("postgres URL: %s", text[at+len("`: "):])
	}
	return errors.New("postgres URL cannot be read")
}

// postgresTLS makes every connection use the certificates of the flags.
func postgresTLS(config *pgx.ConnConfig, a access.Access, mode string) error {
	ours, err := a.TLS()
	if err != nil || ours == nil {
		return err
	}
	switch mode {
	case "disable", "allow", "prefer":
		return fmt.Errorf("there are settings for TLS, but the URL has sslmode=%s, with which it may be left out: use sslmode=verify-full", mode)
	}
	replace := func(host string, old *tls.Config) (*tls.Config, error) {
		if old == nil {
			return nil, errors.New("there are settings for TLS, but the URL leads to a socket of this machine")
		}
		own := ours.Clone()
		own.ServerName = cmp.Or(own.ServerName, host)
		return own, nil
	}
	if config.TLSConfig, err = replace(config.Host, config.TLSConfig); err != nil {
		return err
	}
	for _, f := range config.Fallbacks {
		if f.TLSConfig, err = replace(f.Host, f.TLSConfig); err != nil {
			return err
		}
	}
	return nil
}

// postgresListen returns how to reach the server that sends notifications. It returns nil if
// notifications are off. With the table of ShedLock there are none.
func postgresListen(config *pgx.ConnConfig, own address, shed bool) (*pgx.ConnConfig, error) {
	direct := own.query.Get("listen")
	switch {
	case direct == "off" || shed && !own.query.Has("listen"):
		return nil, nil
	case shed:
		return nil, errors.New("postgres URL has a \"listen\", but nobody notifies with layout=shedlock: leave it out")
	case !own.query.Has("listen"):
		return config.Copy(), nil
	}
	addr, err := redisurl.HostPort(direct, "5432")
	if err != nil {
		return nil, fmt.Errorf("postgres URL has a \"listen\" that is neither off nor a host and port: %w", err)
	}
	return redirected(config, addr), nil
}

// redirected returns config for the server at addr. It leaves out the other hosts of the URL,
// but keeps the attempts with and without TLS.
func redirected(config *pgx.ConnConfig, addr string) *pgx.ConnConfig {
	host, number, _ := net.SplitHostPort(addr)
	port, _ := strconv.ParseUint(number, 10, 16) // HostPort has checked it
	to := config.Copy()
	rename := func(t *tls.Config) {
		if t != nil && t.ServerName == config.Host {
			t.ServerName = host
		}
	}
	rename(to.TLSConfig)
	to.Fallbacks = slices.DeleteFunc(to.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != config.Host || f.Port != config.Port
	})
	to.Host, to.Port = host, uint16(port)
	for _, f := range to.Fallbacks {
		f.Host, f.Port = to.Host, to.Port
		rename(f.TLSConfig)
	}
	return to
}

// postgresHosts returns where the servers are.
func postgresHosts(config *pgx.ConnConfig) string {
	all := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, f := range config.Fallbacks {
		all = append(all, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), ", ")
}

func (p *postgres) open(ctx context.Context) (*Store, error) {
	pool, err := pgxpool.NewWithConfig(ctx, p.config)
	if err != nil {
		return nil, postgresError(p.where, err)
	}
	backend := pghold.New(pool, p.options)
	limited, cancel := context.WithTimeout(ctx, p.hostsTimeout())
	defer cancel()
	if err = pool.Ping(limited); err != nil {
		err = postgresError(p.where, err)
	} else if p.create {
		err = backend.CreateTable(limited)
	}
	s := &Store{Kind: Postgres, Backend: backend, Layout: layoutName(p.options.Layout == pghold.ShedLock), Ask: examine.Postgres(pool, p.options), where: p.where, trouble: postgresTrouble(pool), close: pool.Close, ping: func(ctx context.Context) (string, error) {
		var version string
		err := pool.QueryRow(ctx, "SHOW server_version", pgx.QueryExecModeExec).Scan(&version)
		if err != nil {
			return "", postgresError(p.where, err)
		}
		return version, nil
	}}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// hostsTimeout is how long all hosts together may take to answer.
func (p *postgres) hostsTimeout() time.Duration {
	return time.Duration(1+len(p.config.ConnConfig.Fallbacks)) * p.config.ConnConfig.ConnectTimeout
}

// postgresError returns the error for err, which came before a request for a lock. The server
// may refuse a login, a database that does not exist, or a setting. Otherwise the store is
// unreachable.
func postgresError(where string, err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		switch e.Code[:min(2, len(e.Code))] {
		case "28", "3D", "42", "08": // login, database, right or setting, a pooler that does not know the protocol
			return denied(Postgres, where, err)
		}
	}
	return unreachable(Postgres, where, err)
}
