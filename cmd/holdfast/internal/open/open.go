// Package open turns the URL of a store into a backend of locks. It also asks the store what
// endangers the locks.
//
// Only this package of the command line knows which stores there are. To add a store, add an
// entry to schemes, and a file to this package.
package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Kind is a kind of store. Its text is also the name of its section in the configuration.
type Kind string

// Kinds of stores.
const (
	Redis     Kind = "redis"     // Redis or Valkey: one server, Sentinels, or a cluster
	Etcd      Kind = "etcd"      // URLs with etcd:// and etcds://
	ZooKeeper Kind = "zookeeper" // URLs with zk:// and zks://
	Postgres  Kind = "postgres"  // PostgreSQL, also behind a pooler
	MySQL     Kind = "mysql"     // MySQL or MariaDB
)

// Title is the name of the product, for people.
func (k Kind) Title() string { return k.scheme().title }

// scheme returns the scheme of a kind of store. For the kind "", it returns the scheme of
// Redis, because "" is the kind of a store of several servers, and these are Redis.
func (k Kind) scheme() scheme {
	all := schemes()
	return all[max(0, slices.IndexFunc(all, func(s scheme) bool { return s.kind == k }))]
}

// scheme describes one kind of store: the names that may stand before the :// of its URLs, and
// what else all stores of this kind have in common.
type scheme struct {
	kind   Kind
	title  string
	server string // what whatAnswers returns for a server of this kind
	port   string // the default port
	names  []string
	usage  string // which URLs are accepted, for messages
	parse  func(Request) (settings, error)
}

// schemes returns the accepted schemes. Messages name the kinds of store in this order.
func schemes() []scheme {
	return []scheme{
		{
			Redis, "Redis", aRedis, "6379", redisurl.Schemes(),
			"redis://, rediss://, redis+cluster://, redis+sentinel:// or unix:// for Redis (also valkey)", asSettings(parseRedis),
		},
		{Etcd, "etcd", anEtcd, "2379", []string{"etcd", "etcds"}, "etcd:// or etcds:// for etcd", asSettings(parseEtcd)},
		{ZooKeeper, "ZooKeeper", aZooKeeper, "2181", []string{"zk", "zks"}, "zk:// or zks:// for ZooKeeper", asSettings(parseZooKeeper)},
		{Postgres, "PostgreSQL", aPostgres, "5432", []string{"postgres", "postgresql"}, "postgres:// for PostgreSQL", asSettings(parsePostgres)},
		{MySQL, "MySQL", aMySQL, "3306", []string{"mysql"}, "mysql:// for MySQL and MariaDB", asSettings(parseMySQL)},
	}
}

// asSettings returns `parse` as a function with the type of result that a scheme needs.
func asSettings[S settings](parse func(Request) (S, error)) func(Request) (settings, error) {
	return func(r Request) (settings, error) { return parse(r) }
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
	name, _, isURL := strings.Cut(address, "://")
	var usages []string
	for _, s := range schemes() {
		if isURL && slices.Contains(s.names, strings.ToLower(name)) {
			return s.kind, nil
		}
		usages = append(usages, s.usage)
	}
	use := "use " + strings.Join(usages, ", ")
	switch {
	case !isURL:
		return "", errors.New("is neither a URL nor HOST:PORT; " + use)
	case strings.ContainsAny(name, ":/?#@%"), len(name) > len("valkeys+sentinel"): // name may be a password
		return "", errors.New("is a URL without a scheme; " + use)
	}
	return "", fmt.Errorf("is a URL with the unknown scheme %q; %s", name, use)
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

// Request names a store, and has the settings for its locks.
type Request struct {
	Access Access
	TTL    time.Duration      // the lease; used only by stores in which a client has one lease for all its locks
	Redis  *redishold.Options // for a Redis; nil means the defaults
	Logger *slog.Logger       // nil is silent
}

// settings has the settings from one Request. Before open, nothing is sent to the store.
type settings interface {
	backend() driver.Backend // the backend has no client, so only its Info can be used
	open(ctx context.Context) (*Store, error)
}

// Target is the store that a Request names. Nothing is sent to the store before Open.
type Target struct {
	Kind Kind
	settings

	access Access
	probe  probe
}

// Info describes the store, and does no I/O.
func (t *Target) Info() driver.Info { return t.backend().Info() }

// Parse returns the store that r names, or an error if its URL or its certificates cannot be
// used. It reads files, and does no other I/O. No error has a password in it.
func Parse(r Request) (*Target, error) {
	kind, err := KindOf(r.Access.URL)
	if r.Access.URL == "" && r.Access.Imported != nil {
		kind = Redis
		err = nil
	}
	if err != nil {
		return nil, err
	}
	settings, err := kind.scheme().parse(r)
	if err != nil {
		return nil, err
	}
	return &Target{Kind: kind, settings: settings, access: r.Access}, nil
}

// Open connects, and returns when the store has answered. Its error is driver.ErrNotExecuted if
// the store could not be reached. If the store refused the user, the error is both
// driver.ErrNotExecuted and driver.ErrRefused. For a Redis, it is the error of rueidisconn.Open.
// No error has a password in it. Open may be called again after an error.
func (t *Target) Open(ctx context.Context) (*Store, error) { return t.OpenWithin(ctx, 0) }

// OpenWithin does what Open does, and gives the store the time `limit` at most to answer. To find
// out why it has not answered may take answerLimit more. A limit of 0 is that of the URL alone.
func (t *Target) OpenWithin(ctx context.Context, limit time.Duration) (*Store, error) {
	limited := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	s, err := t.open(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = unreachable(t.Kind, t.access.Place(), fmt.Errorf("no answer within %v: %w", limit.Round(time.Millisecond), err))
	}
	if err != nil {
		return nil, t.explain(ctx, err)
	}
	s.Where = t.access.Place()
	return s, nil
}

// Store is an open store.
type Store struct {
	Kind    Kind
	Backend driver.Backend
	Redis   *rueidisconn.Conn // nil if the store is no Redis
	Layout  string            // the layout of a table or a Redis; "" for any other store
	Where   string            // the URL without passwords; "" for several servers

	redis   *redis                                                         // the settings of a Redis; nil if the store is no Redis
	hosts   string                                                         // the servers, for people
	state   func(ctx context.Context) (state, error)                       // asks the servers
	examine func(ctx context.Context, ttl time.Duration) (examined, error) // asks the servers what endangers locks; nil for a Redis
	close   func()
}

// Several returns the store for a backend of several servers. No server can answer for all
// servers, so Trouble returns nil and Ping returns no version. Do not call Examine. Close calls
// `shut`.
func Several(b driver.Backend, shut func()) *Store {
	return &Store{Backend: b, close: shut, state: func(context.Context) (state, error) { return state{}, nil }}
}

// ready waits for an answer of the store, creates the table if `create` is true, and returns s.
// If that fails or takes longer than `limit`, ready closes s, and returns the error.
func (s *Store) ready(ctx context.Context, limit time.Duration, create bool) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := s.Ping(ctx)
	if err == nil && create {
		err = s.Backend.(interface{ CreateTable(context.Context) error }).CreateTable(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// closeLimit is how long Close waits for a store that does not answer.
const closeLimit = time.Second

// Close closes the connections. It waits for a second at most. Connections that are still open
// after that are closed later, at the latest when the program ends.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.close()
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}
