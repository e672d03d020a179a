// Package open turns the URL of a store into a backend of locks.
//
// Only this package of the command line knows which stores there are. To add a store, add an
// entry to schemes, and a file to this package.
package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Kind is a kind of store. Its text is also that of its section in the configuration.
type Kind string

// Kinds of stores.
const (
	// Redis is a Redis or a Valkey.
	Redis Kind = "redis"
	// Etcd is an etcd.
	Etcd Kind = "etcd"
	// ZooKeeper is a ZooKeeper.
	ZooKeeper Kind = "zookeeper"
	// Postgres is a PostgreSQL.
	Postgres Kind = "postgres"
	// MySQL is a MySQL or a MariaDB.
	MySQL Kind = "mysql"
)

// Title is the name of the product, for people.
func (k Kind) Title() string {
	switch k {
	case Etcd:
		return "etcd"
	case ZooKeeper:
		return "ZooKeeper"
	case Postgres:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	default:
		return "Redis"
	}
}

// scheme has the names that may stand before the :// of the URLs of one kind of store.
type scheme struct {
	names  []string
	kind   Kind
	usage  string // for messages
	target func(Request) (*Target, error)
}

// schemes returns the accepted schemes. Redis comes first, because messages name it first.
func schemes() []scheme {
	return []scheme{
		{redisurl.Schemes(), Redis, "redis://, rediss://, redis+cluster://, redis+sentinel:// or unix:// for Redis (also valkey)", redisTarget},
		{[]string{"etcd", "etcds"}, Etcd, "etcd:// or etcds:// for etcd", etcdTarget},
		{[]string{"zk", "zks"}, ZooKeeper, "zk:// or zks:// for ZooKeeper", zooKeeperTarget},
		{[]string{"postgres", "postgresql"}, Postgres, "postgres:// for PostgreSQL", postgresTarget},
		{[]string{"mysql"}, MySQL, "mysql:// for MySQL and MariaDB", mysqlTarget},
	}
}

// Kinds returns all kinds of stores.
func Kinds() []Kind {
	var all []Kind
	for _, s := range schemes() {
		all = append(all, s.kind)
	}
	return all
}

// Schemes returns all names that may stand before the :// of a URL.
func Schemes() []string {
	var all []string
	for _, s := range schemes() {
		all = append(all, s.names...)
	}
	return all
}

// KindOf returns the kind of store that a URL names. The error says which URLs are accepted.
// It does not show a text that may be a password.
func KindOf(address string) (Kind, error) {
	s, err := schemeOf(address)
	return s.kind, err
}

// Complete returns the URL of a Redis if address is only a host and a port, as redis-cli
// takes them. Otherwise it returns address.
func Complete(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, "/@?#%") {
		return address
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return address
	}
	return "redis://" + address
}

func schemeOf(address string) (scheme, error) {
	all := schemes()
	name, _, ok := strings.Cut(address, "://")
	if !ok {
		return scheme{}, errors.New("is neither a URL nor HOST:PORT; " + usage(all))
	}
	for _, s := range all {
		if slices.Contains(s.names, strings.ToLower(name)) {
			return s, nil
		}
	}
	if strings.ContainsAny(name, ":/?#@%") || len(name) > len("valkeys+sentinel") {
		return scheme{}, errors.New("is a URL without a scheme; " + usage(all)) // name may be a password
	}
	return scheme{}, fmt.Errorf("is a URL with the unknown scheme %q; %s", name, usage(all))
}

// usage returns a text with the accepted URLs.
func usage(of []scheme) string {
	var each []string
	for _, s := range of {
		each = append(each, s.usage)
	}
	return "use " + strings.Join(each, ", ")
}

// Request names a store, and has the settings for its locks.
type Request struct {
	Access access.Access
	TTL    time.Duration      // of the locks; stores with one lease for a whole client need it
	Redis  *redishold.Options // for a Redis; nil means the defaults
	Logger *slog.Logger       // nil is silent
}

// Target is a store that a Request names, before anything was sent to it.
type Target struct {
	Kind Kind

	shape func() driver.Backend // a backend without a client, for Info and Resizes
	open  func(ctx context.Context) (*Store, error)

	scheme, addr string // of its URL, and its first address; "" for one without
	asked        time.Time
	meant        string // the explanation that was found then
}

// Info describes the store, and does no I/O.
func (t *Target) Info() driver.Info { return t.shape().Info() }

// Resizes reports whether the number of permits of a semaphore can be changed. It does no
// I/O.
func (t *Target) Resizes() bool {
	_, ok := t.shape().(driver.Resizer)
	return ok
}

// Parse returns the store that r names, or an error if its URL or its certificates cannot be
// used. It reads files, and does no other I/O. No error has a password in it.
func Parse(r Request) (*Target, error) {
	if r.Access.URL == "" && r.Access.Imported != nil {
		return redisTarget(r)
	}
	s, err := schemeOf(r.Access.URL)
	if err != nil {
		return nil, err
	}
	t, err := s.target(r)
	if err != nil {
		return nil, err
	}
	t.Kind = s.kind
	t.scheme, t.addr = strings.ToLower(strings.SplitN(r.Access.URL, "://", 2)[0]), firstAddr(s.kind, r.Access.URL)
	return t, nil
}

// Open connects, and returns when the store has answered. An error is driver.ErrNotExecuted
// if the store could not be reached, and also driver.ErrRefused if the store refused the
// user. For a Redis it is the error of rueidisconn.Open. It has no password in it.
func (t *Target) Open(ctx context.Context) (*Store, error) {
	s, err := t.open(ctx)
	if err != nil {
		return nil, t.explain(ctx, err)
	}
	return s, nil
}

// Store is an open store.
type Store struct {
	Kind    Kind
	Backend driver.Backend
	Redis   *rueidisconn.Conn // nil for any other store
	Layout  string            // of a table or a Redis; "" of any other store

	// Ask asks the servers what endangers locks; nil for a Redis, which doctor examines.
	Ask examine.Ask

	where   string // the servers, for people
	ping    func(ctx context.Context) (version string, err error)
	trouble func(ctx context.Context) error // why no lock can be taken; nil if nothing is wrong
	close   func()
}

// Several returns the store for a backend b of several servers. It has no Trouble and no
// Ping, because no single server can answer for all. Its Close calls shut.
func Several(b driver.Backend, shut func()) *Store {
	return &Store{Backend: b, close: shut}
}

// Ping asks the store for its version, which is one round trip.
func (s *Store) Ping(ctx context.Context) (version string, err error) { return s.ping(ctx) }

// closeLimit is how long Close waits for a store that does not answer.
const closeLimit = time.Second

// Close closes the connections. It waits for a second at most. Connections that are open then
// end with the program, or a little later.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.close()
	}()
	timer := time.NewTimer(closeLimit)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// dialTimeout is how long a server that is not Redis may take to answer the first time.
const dialTimeout = 5 * time.Second

// dialLimit returns how long a server may take to answer the first time: the time of the
// configuration, else the time in the URL, else dialTimeout.
func dialLimit(a access.Access, inURL time.Duration) time.Duration {
	return cmp.Or(a.DialTimeout, inURL, dialTimeout)
}
