package open

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/zkhold"
)

// at is a Request for a URL.
func at(address string) Request { return Request{Access: Access{URL: address}} }

func TestKindOf(t *testing.T) {
	for address, want := range map[string]Kind{
		"redis://h": Redis, "valkeys+cluster://h,i": Redis, "redis-sentinel://h/?master=m": Redis, "unix:///s": Redis,
		"etcd://h": Etcd, "etcds://h": Etcd, "ETCD://h": Etcd, "zk://h,i/locks": ZooKeeper, "zks://h": ZooKeeper,
		"postgres://h/d": Postgres, "postgresql://h/d": Postgres, "mysql://h/d": MySQL,
	} {
		if got, err := KindOf(address); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %s", address, got, err, want)
		}
	}
	for address, want := range map[string]string{
		"localhost:port":    "is neither a URL nor HOST:PORT",
		"etdc://h":          `unknown scheme "etdc"`,
		"s3cret@redis://h":  "without a scheme",
		"u:s3cret@mysql://": "without a scheme",
	} {
		_, err := KindOf(address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q and no password", address, err, want)
			continue
		}
		for _, accepted := range []string{"redis://", "etcd://", "etcds://", "zk://", "zks://", "postgres://", "mysql://", "unix://"} {
			if !strings.Contains(err.Error(), accepted) {
				t.Errorf("%s: the error does not say that %s is accepted: %v", address, accepted, err)
			}
		}
	}
}

// Every scheme leads to a store of its kind, which is described before anything is sent.
func TestEverySchemeIsDescribed(t *testing.T) {
	names := map[Kind]string{Redis: "redis", Etcd: "etcd", ZooKeeper: "ZooKeeper", Postgres: "postgresql", MySQL: "mysql"}
	if len(names) != len(schemes()) {
		t.Errorf("got %d kinds, want %d", len(schemes()), len(names))
	}
	for _, s := range Schemes() {
		target, err := Parse(at(s + "://nowhere.invalid/d"))
		if strings.HasPrefix(s, "etcd") {
			target, err = Parse(at(s + "://nowhere.invalid"))
		}
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if got := target.Info().Name; got != names[target.Kind] || target.Kind.Title() == "" {
			t.Errorf("%s: got a store called %q, want %q", s, got, names[target.Kind])
		}
		if _, ok := target.backend().(admin.Source); !ok && target.Kind != Redis { // Redis: what is opened is one
			t.Errorf("%s does not say what is locked", s)
		}
	}
	target, err := Parse(Request{Access: Access{URL: "etcd://h"}, TTL: 1500 * time.Millisecond})
	if err != nil || target.Info().SessionTTL != 2*time.Second {
		t.Errorf("got %v, want the session to last as long as a lock, in whole seconds", err)
	}
}

func TestWhatIsWrongWithAURL(t *testing.T) {
	for address, want := range map[string]string{
		"zk://":                                  "names no host",
		"zk://u@h":                               "a user and a password",
		"zk://h?session=3s":                      `unknown parameter "session" (known here: dial_timeout)`,
		"zk://h?dial_timeout=soon":               `"dial_timeout"`,
		"etcd://":                                "names no host",
		"etcd://h:0":                             "port",
		"etcd://h,":                              "invalid host",
		"etcd://h/locks":                         "has a path",
		"etcd://u@h":                             "a user and a password",
		"etcd://h?ttl=3s":                        `unknown parameter "ttl" (known here: dial_timeout)`,
		"etcd://h?dial_timeout=3":                `"dial_timeout"`,
		"etcd://h?dial_timeout=3s&dial_timeout=": "more than once",
		"etcd://u:s3/cret@h":                     "cannot be taken apart",
		"postgres://u:s3?cret@h/d":               "cannot be taken apart",
		"postgres://u:s3cret@h:99999/d":          "postgres URL: ",
		"postgres://u:s3cret@h/d?sslmode=maybe":  "sslmode",
		"postgres://u:s3cret@h/d?pool_max_conns=many":       "pool",
		"postgres://u:s3cret@h/d?create=perhaps":            `"create"`,
		"postgres://u:s3cret@h/d?listen=":                   `"listen"`,
		"postgres://u:s3cret@h/d?listen=a:b:c":              `"listen"`,
		"postgres://u:s3cret@h/d?table=a&table=b":           "more than once",
		"postgres://u@h/d?password=s3cret&sslmode=maybe":    "sslmode",
		"postgres://u:s3cret@h/d?connect_timeout=soon":      "connect_timeout",
		"postgres://u:s3cret@h/d?sslrootcert=/no/such/file": "postgres URL: ",
		"postgres://u:s3cret@h/d?layout=ShedLock":           `"layout" that is neither lease nor shedlock`,
		"postgres://u:s3cret@h/d?layout=":                   `"layout" that is neither lease nor shedlock`,
		"postgres://h/d?layout=shedlock&listen=db:5432":     "nobody notifies with layout=shedlock",
		"mysql://u:s3cret@h/d?layout=rows":                  `"layout" that is neither lease nor shedlock`,
		"mysql://u:s3cret@h":                                "names no database",
		"mysql://u:s3cret@h/a/b":                            "names no database",
		"mysql://u:s3cret@/d":                               "names no host",
		"mysql://u:s3cret@h,/d":                             "invalid host",
		"mysql://u:s3cret@h/d?charset=utf8":                 "unknown parameter",
		"mysql://u:s3cret@h/d?tls=yes":                      `"tls"`,
		"mysql://u:s3cret@h/d?socket=/s":                    `"socket"`,
		"mysql://u:s3cret@/d?socket=s":                      `"socket"`,
		"mysql://u:s3cret@h/d?create=perhaps":               `"create"`,
		"mysql://u:s3cret@h/d?%zz":                          "cannot be taken apart",
		"mysql://u:s3cret@h/d?dial_timeout=-1s":             `"dial_timeout"`,
		"mysql://u:s3cret@h/d?tls=true&tls=true":            "more than once",
	} {
		target, err := Parse(at(address))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error with %q", address, target, err, want)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "s3") && strings.Contains(address, "s3") {
			t.Errorf("%s: the error shows the password: %v", address, err)
		}
	}
}

// However a URL of any store has its password, what is shown of the URL has not.
func TestRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"etcd://app:s3cret@h1:2379,h2":                            "etcd://app@h1:2379,h2",
		"zk://app:s3cret@h1:2181,h2/locks":                        "zk://app@h1:2181,h2/locks",
		"zks://app:s3/cret@h":                                     "zks://…",
		"postgres://app:s3cret@h/d?sslmode=require":               "postgres://app@h/d?sslmode=require",
		"postgres://app@h/d?password=s3cret":                      "postgres://app@h/d?password=%2A%2A%2A",
		"postgres://h/d?sslpassword=s3cret&sslmode=require":       "postgres://h/d?sslmode=require&sslpassword=%2A%2A%2A",
		"mysql://app:s3cret@h/d?tls=true":                         "mysql://app@h/d?tls=true",
		"mysql://app:s3/cret@h/d":                                 "mysql://…",
		"postgresql://app:s3%40cret@h1:5432,h2:5432/d?listen=off": "postgresql://app@h1:5432,h2:5432/d?listen=off",
	} {
		if got := redisurl.Redacted(address); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestZooKeeperOptions(t *testing.T) {
	z, err := parseZooKeeper(at("zk://app:s3%2Fcret@h1,[::1]:9/ops/locks/?dial_timeout=3s"))
	if err != nil || !slices.Equal(z.servers, []string{"h1:2181", "[::1]:9"}) || z.limit != 3*time.Second || z.tls != nil || z.options.Dial != nil ||
		z.options.Root != "/ops/locks" || !slices.Equal(z.options.Auth, []zkhold.Credentials{{Scheme: "digest", Auth: "app:s3/cret"}}) {
		t.Errorf("got %+v with %+v, error %v", z, z.options, err)
	}
	if z, err = parseZooKeeper(at("zks://h")); err != nil || z.tls == nil || z.tls.InsecureSkipVerify || z.options.Dial == nil || z.options.Auth != nil {
		t.Errorf("zks: got %+v, error %v, want TLS that verifies", z, err)
	}
	if _, err = parseZooKeeper(Request{Access: Access{URL: "zk://h", Insecure: true}}); err == nil || !strings.Contains(err.Error(), "use zks") {
		t.Errorf("got %v, want that certificates are for zks", err)
	}
}

// A server that has the command srvr switched off is there all the same.
func TestZooKeeperVersion(t *testing.T) {
	for said, want := range map[string]string{
		"Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19 19:53 UTC\nLatency min/avg/max: 0/0.0/0\n": "3.9.4",
		"srvr is not executed because it is not in the whitelist.\n":                                                                       "unknown",
	} {
		addr := must.Serve(t, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 4))
			_, _ = io.WriteString(conn, said)
		})
		z, err := parseZooKeeper(at("zk://" + addr))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := z.state(t.Context()); got.version != want || err != nil {
			t.Errorf("got version %q, %v, want %q", got.version, err, want)
		}
	}
}

func TestEtcdConfig(t *testing.T) {
	e, err := parseEtcd(at("etcd://app:s3%2Fcret@h1,[::1]:9?dial_timeout=3s"))
	if err != nil {
		t.Fatal(err)
	}
	c := e.config
	if got := strings.Join(c.Endpoints, " "); got != "http://h1:2379 http://[::1]:9" || e.hosts != "h1:2379, [::1]:9" {
		t.Errorf("got %s at %s", got, e.hosts)
	}
	if c.Username != "app" || c.Password != "s3/cret" || c.DialTimeout != 3*time.Second || c.TLS != nil {
		t.Errorf("got %s, a password of %d bytes, %v, TLS %v", c.Username, len(c.Password), c.DialTimeout, c.TLS != nil)
	}
	r := at("etcds://h1:1")
	r.Access.Username, r.Access.Password, r.Access.ServerName, r.Access.DialTimeout = "u", "p", "name", time.Second
	if e, err = parseEtcd(r); err != nil {
		t.Fatal(err)
	}
	c = e.config
	if c.Endpoints[0] != "https://h1:1" || c.Username != "u" || c.Password != "p" || c.TLS.ServerName != "name" || c.DialTimeout != time.Second {
		t.Errorf("got %v, %s, %v, want what the flags say", c.Endpoints, c.Username, c.TLS)
	}
	if e, err = parseEtcd(at("etcds://h")); err != nil || e.config.TLS == nil || e.config.TLS.InsecureSkipVerify {
		t.Errorf("got %v, %v, want TLS that verifies", e.config.TLS, err)
	}
	if _, err = parseEtcd(Request{Access: Access{URL: "etcd://h", Insecure: true}}); err == nil || !strings.Contains(err.Error(), "use etcds") {
		t.Errorf("got %v, want that certificates are for etcds", err)
	}
}

func TestPostgresConfig(t *testing.T) {
	p, err := parsePostgres(at("postgres://app:s3%2Fcret@h1:1,h2/d?sslmode=disable&table=ops.locks&create=true&connect_timeout=7"))
	if err != nil {
		t.Fatal(err)
	}
	c := p.config.ConnConfig
	if c.User != "app" || c.Password != "s3/cret" || c.Host != "h1" || c.Port != 1 || c.Database != "d" || c.TLSConfig != nil || c.ConnectTimeout != 7*time.Second {
		t.Errorf("got %s@%s:%d/%s, %v", c.User, c.Host, c.Port, c.Database, c.ConnectTimeout)
	}
	where := postgresHosts(c)
	if where != "h1:1, h2:5432" || p.options.Table != "ops.locks" || !p.create || c.RuntimeParams["application_name"] != "holdfast" {
		t.Errorf("got %s, table %s, %v, %v", where, p.options.Table, p.create, c.RuntimeParams)
	}
	for _, ours := range []string{"table", "create", "listen"} {
		if _, sent := c.RuntimeParams[ours]; sent {
			t.Errorf("the server is sent our own parameter %s", ours)
		}
	}
	if l := p.options.Listen; l == nil || l.Host != "h1" || len(l.Fallbacks) != 1 {
		t.Errorf("got %+v, want to listen where the URL leads to", l)
	}
	r := at("postgres://h/d")
	r.Access.Username, r.Access.Password, r.Access.DialTimeout = "u", "p@/", time.Second
	if p, err = parsePostgres(r); err != nil || p.config.ConnConfig.User != "u" || p.config.ConnConfig.Password != "p@/" || p.config.ConnConfig.ConnectTimeout != time.Second {
		t.Errorf("got %v, want what the flags say", err)
	}
	if p, err = parsePostgres(at("postgres://h/d")); err != nil || p.config.ConnConfig.ConnectTimeout != dialTimeout {
		t.Errorf("got %v, want a bound for connecting", err)
	}
}

func TestPostgresListen(t *testing.T) {
	p, err := parsePostgres(at("postgres://app:s3cret@pool1:6432,pool2:6432/d?sslmode=verify-full&listen=db:5433"))
	if err != nil {
		t.Fatal(err)
	}
	l := p.options.Listen
	if l.Host != "db" || l.Port != 5433 || l.User != "app" || l.Password != "s3cret" || l.TLSConfig.ServerName != "db" || len(l.Fallbacks) != 0 {
		t.Errorf("got %s:%d for %s, %d more", l.Host, l.Port, l.TLSConfig.ServerName, len(l.Fallbacks))
	}
	if c := p.config.ConnConfig; c.Host != "pool1" || c.TLSConfig.ServerName != "pool1" || len(c.Fallbacks) != 1 {
		t.Errorf("got %s for %s, want locks to go where the URL leads to", c.Host, c.TLSConfig.ServerName)
	}
	if p, err = parsePostgres(at("postgres://pool:6432/d?listen=[::1]")); err != nil || p.options.Listen.Host != "::1" || p.options.Listen.Port != 5432 {
		t.Errorf("got %v, want the usual port", err)
	}
	for _, f := range p.options.Listen.Fallbacks { // of sslmode=prefer, without TLS
		if f.Host != "::1" || f.TLSConfig != nil {
			t.Errorf("got another attempt at %s", f.Host)
		}
	}
	if p, err = parsePostgres(at("postgres://pool/d?listen=off")); err != nil || p.options.Listen != nil {
		t.Errorf("got %v, %v, want nobody to listen", p.options.Listen, err)
	}
}

func TestPostgresTLS(t *testing.T) {
	with := func(address string) Request {
		return Request{Access: Access{URL: address, Insecure: true}}
	}
	for _, address := range []string{"postgres://h,i/d", "postgres://h,i/d?sslmode=require", "postgres://h,i/d?sslmode=verify-full"} {
		p, err := parsePostgres(with(address))
		if err != nil {
			t.Fatal(err)
		}
		c := p.config.ConnConfig
		if len(c.Fallbacks) != 1 || c.TLSConfig == nil || !c.TLSConfig.InsecureSkipVerify || c.TLSConfig.ServerName != "h" ||
			c.Fallbacks[0].TLSConfig == nil || c.Fallbacks[0].TLSConfig.ServerName != "i" || !c.Fallbacks[0].TLSConfig.InsecureSkipVerify {
			t.Errorf("%s: got %+v, want TLS as the flags say with each host, and no way around it", address, c.TLSConfig)
		}
	}
	for _, mode := range []string{"disable", "allow", "prefer"} {
		if _, err := parsePostgres(with("postgres://h/d?sslmode=" + mode)); err == nil || !strings.Contains(err.Error(), mode) {
			t.Errorf("%s: got %v, want a contradiction", mode, err)
		}
	}
	if _, err := parsePostgres(with("postgres:///d?host=/run/postgresql")); err == nil || !strings.Contains(err.Error(), "socket") {
		t.Errorf("got %v, want that there is no TLS over a socket", err)
	}
}

func TestMySQLConfig(t *testing.T) {
	d, err := parseMySQL(at("mysql://app:s3%2Fcret@[::1],h:7/d?tls=skip-verify&table=t&create=1&dial_timeout=2s"))
	if err != nil {
		t.Fatal(err)
	}
	c := d.config
	if c.User != "app" || c.Passwd != "s3/cret" || c.Net != "tcp" || !slices.Equal(d.addrs, []string{"[::1]:3306", "h:7"}) || c.DBName != "d" || c.TLSConfig != "skip-verify" || c.Timeout != 2*time.Second {
		t.Errorf("got %s@%s(%s)/%s, TLS %s, %v", c.User, c.Net, d.addrs, c.DBName, c.TLSConfig, c.Timeout)
	}
	if d.options.Table != "t" || !d.create || !c.InterpolateParams {
		t.Errorf("got table %q, %v, %v", d.options.Table, d.create, c.InterpolateParams)
	}
	d, err = parseMySQL(at("mysql://root@/d?socket=/run/s"))
	if err != nil || d.config.Net != "unix" || !slices.Equal(d.addrs, []string{"/run/s"}) || d.config.Timeout != dialTimeout {
		t.Errorf("got %v, want a socket", err)
	}
	with := func(address string) (*database, error) {
		return parseMySQL(Request{Access: Access{URL: address, ServerName: "n"}})
	}
	if d, err = with("mysql://h/d"); err != nil || d.config.TLS == nil || d.config.TLS.ServerName != "n" || d.config.TLS.InsecureSkipVerify || d.config.AllowFallbackToPlaintext {
		t.Errorf("got %v, want TLS that is not left out", err)
	}
	for _, address := range []string{"mysql://h/d?tls=false", "mysql://h/d?tls=preferred", "mysql://h/d?tls=skip-verify", "mysql://root@/d?socket=/s"} {
		if _, err := with(address); err == nil || !strings.Contains(err.Error(), "settings for TLS") {
			t.Errorf("%s: got %v, want a contradiction", address, err)
		}
	}
}

// A certificate that cannot be read is an error before anything is sent.
func TestCertificatesAreRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "absent.pem")
	for _, address := range []string{"etcds://h", "zks://h", "postgres://h/d", "mysql://h/d"} {
		if _, err := Parse(Request{Access: Access{URL: address, CACert: missing}}); err == nil || !strings.Contains(err.Error(), "absent.pem") {
			t.Errorf("%s: got %v, want the name of the file", address, err)
		}
	}
}

// A server that is not there is distinguished from one that does not answer, each in time.
func TestOpenWithoutAServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, kind := range []string{"etcd://u:s3cret@%", "etcds://%", "zk://u:s3cret@%/locks", "zks://%", "postgres://u:s3cret@%/d?sslmode=disable", "mysql://u:s3cret@%/d", "mysql://u:s3cret@%,%/d"} {
		for what, addr := range map[string]string{"connection refused": gone.Addr().String(), "deadline exceeded": silent.Addr().String()} {
			r := at(strings.ReplaceAll(kind, "%", addr))
			r.Access.DialTimeout = 300 * time.Millisecond
			target, err := Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			s, err := target.Open(t.Context())
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), addr) {
				t.Errorf("%s: got %v, want ErrNotExecuted of %s", r.Access.URL, err, addr)
			}
			if what == "connection refused" && err != nil && !strings.Contains(err.Error(), what) {
				t.Errorf("%s: got %v, want %s", r.Access.URL, err, what)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%s: it took %v", r.Access.URL, took)
			}
		}
	}
}
