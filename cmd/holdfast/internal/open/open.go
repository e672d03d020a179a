// Package open turns the URL of a store into a backend of locks.
//
// This is the one place of the command line that knows which stores there are. A further
// one is an entry in schemes, and a file beside this one.
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

// scheme is what stands before the :// of URLs.
type scheme struct {
	names  []string
	kind   Kind
	usage  string // for messages
	target func(Request) (*Target, error)
}

// schemes are those that are accepted. Redis comes first: it is the default of messages.
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

// Schemes returns what may stand before the :// of a URL.
func Schemes() []string {
	var all []string
	for _, s := range schemes() {
		all = append(all, s.names...)
	}
	return all
}

// KindOf returns which store a URL names. The error says what is accepted, and shows
// nothing of what may be a password.
func KindOf(address string) (Kind, error) {
	s, err := schemeOf(address)
	return s.kind, err
}

// Complete returns the URL of a Redis where address is a host and a port alone, as
// redis-cli takes them, and else address.
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

// usage says which URLs are accepted.
func usage(of []scheme) string {
	var each []string
	for _, s := range of {
		each = append(each, s.usage)
	}
	return "use " + strings.Join(each, ", ")
}

// Request is what is wanted of a store.
type Request struct {
	Access access.Access
	TTL    time.Duration      // of the locks; a store that keeps all of a client together has to know it
	Redis  *redishold.Options // for a Redis; nil means the defaults
	Logger *slog.Logger       // nil is silent
}

// Target is a store that a Request names, before anything was sent to it.
type Target struct {
	Kind Kind

	shape func() driver.Backend // over no client: only to be asked what it can do
	open  func(ctx context.Context) (*Store, error)

	scheme, addr string // of its URL, and its first address; "" for one without
	asked        time.Time
	meant        string // what was found out then
}

// Info describes the store, and does no I/O.
func (t *Target) Info() driver.Info { return t.shape().Info() }

// Resizes reports that the permits of a semaphore can be changed, and does no I/O.
func (t *Target) Resizes() bool {
	_, ok := t.shape().(driver.Resizer)
	return ok
}

// Parse finds out which store r names, and what is wrong with its URL or its
// certificates. It does no I/O but to read files. No error has a password in it.
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

// Open connects, and returns when the store has answered. An error is
// driver.ErrNotExecuted if that could not be reached, and driver.ErrRefused as well if it
// refused the user; for a Redis it is that of rueidisconn.Open. It has no password in it.
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

// Several returns the store that b makes of several servers, of which no single one can be
// asked what is wrong. Its Close calls shut.
func Several(b driver.Backend, shut func()) *Store {
	return &Store{Backend: b, close: shut}
}

// Ping asks the store for its version, which is one round trip.
func (s *Store) Ping(ctx context.Context) (version string, err error) { return s.ping(ctx) }

// closeLimit is how long Close waits for a store that does not take leave.
const closeLimit = time.Second

// Close closes the connections. It waits for a second at most: what is left then ends
// with the program, or a little later by itself.
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

// dialTimeout is how long a server that is no Redis may take to answer the first time.
const dialTimeout = 5 * time.Second

// dialLimit is how long a server may take to answer the first time: what the flags and
// the configuration say, else what the URL does.
func dialLimit(a access.Access, inURL time.Duration) time.Duration {
	return cmp.Or(a.DialTimeout, inURL, dialTimeout)
}
