// Package peer puts every library that is measured behind one interface: one
// file per library, each with the settings that serve it best.
package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Held is a lock that is held.
type Held interface {
	// Unlock releases it, and fails if it was not held any more and the library
	// can tell.
	Unlock() error
}

// Peer takes locks with one library, over a connection of its own. It may be
// used by several goroutines at once.
type Peer interface {
	// Lock waits until key is free, takes it and returns it, or returns an error
	// when ctx is done.
	Lock(ctx context.Context, key string) (Held, error)

	// Close ends the connection. Nothing may be held any more, or be waited for.
	Close()
}

// Multi is a Peer that takes several locks as one.
type Multi interface {
	// LockAll waits until all keys are free and takes them.
	LockAll(ctx context.Context, keys []string) (Held, error)
}

// ReadWrite is a Peer with read-write locks.
type ReadWrite interface {
	// LockRead is Lock for a reader of key.
	LockRead(ctx context.Context, key string) (Held, error)
	// LockWrite is Lock for a writer.
	LockWrite(ctx context.Context, key string) (Held, error)
}

// Fair is a Peer whose waiters are served in order, over all processes.
type Fair interface {
	// LockFair is Lock in that order.
	LockFair(ctx context.Context, key string) (Held, error)
}

// Counting is a Peer with semaphores.
type Counting interface {
	// Acquire takes one of so many permits, as soon as there is one.
	Acquire(ctx context.Context, key string, permits int) (Held, error)
}

// Hearing is a Peer that measures messages.
type Hearing interface {
	// Hear publishes a message and returns when it has come back.
	Hear(ctx context.Context) (Held, error)
}

// Preparing is a Peer that wants to know how many locks will be held or waited for
// at once, before there are any.
type Preparing interface {
	// Prepare makes what n of them need.
	Prepare(n int) error
}

// Target says where the servers are, and how long a lock outlives its holder.
type Target struct {
	Redis      string   // host:port; like the others "" where the store was not started
	Redisson   string   // the folder of the program of internal/e2e/interop/java; "" where it was not built
	Etcd       string   // a URL
	ZooKeeper  string   // host:port
	Curator    string   // the program of internal/e2e/interop/curator, a jar; "" where it was not built
	PostgreSQL string   // a URL
	MySQL      string   // a DSN of go-sql-driver/mysql
	Pool       int      // connections that go-redis has at least; 0: its default
	TTL        Duration // of every lock, whatever the library's default
}

// Duration is a time.Duration that is written as text in JSON.
type Duration time.Duration

// MarshalText writes d as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Role says what a Peer is in a comparison.
type Role string

// Roles.
const (
	Ours  Role = "ours"  // Holdfast
	Other Role = "peer"  // another library
	Limit Role = "limit" // does less than a lock must
)

// Ability is a kind of work that not every Peer can do.
type Ability string

// Abilities.
const (
	Waits   Ability = "waits"   // for a name that somebody holds
	Renews  Ability = "renews"  // what it holds, by itself
	Shares  Ability = "shares"  // ReadWrite
	Queues  Ability = "queues"  // Fair
	Counts  Ability = "counts"  // Counting
	Several Ability = "several" // Multi
	Hears   Ability = "hears"   // Hearing
)

// Spec describes a Peer.
type Spec struct {
	Name   string
	Client string // the library that talks to the server: "rueidis", "go-redis", "etcd", "zk", "pgx", "mysql", "redisson" or "none"
	Role   Role
	Full   bool     // a variant that only the full set measures
	Only   Ability  // a variant that is measured only where this is needed
	Works  []string // a variant that is measured only in works whose names begin so; nil: in all
	Can    []Ability
	Open   func(ctx context.Context, t Target) (Peer, error)

	// Program is set in place of Open where the Peer is not of Go: it returns the command of a
	// measuring process that does the works itself, or why there is none.
	Program func(t Target) ([]string, error)

	// Compiles says that each process compiles while it warms up.
	Compiles bool
}

// Store is a store that a Peer keeps its locks in.
type Store string

// Stores.
const (
	Redis      Store = "redis"      // or Valkey
	Etcd       Store = "etcd"       // of one node
	ZooKeeper  Store = "zookeeper"  // of one server
	PostgreSQL Store = "postgresql" // one server
	MySQL      Store = "mysql"      // MariaDB or MySQL
)

// Store returns the store of the Peer.
func (s Spec) Store() Store {
	switch s.Client {
	case "etcd":
		return Etcd
	case "zk":
		return ZooKeeper
	case "pgx":
		return PostgreSQL
	case "mysql":
		return MySQL
	default:
		return Redis
	}
}

// Specs returns every Peer that is measured beside those of Redis, in the order of the
// tables.
func Specs() []Spec {
	return []Spec{
		holdfastRueidis(), holdfastGoRedis(), holdfastNoHandoff(), holdfastRueidisAsync(), holdfastGoRedisAsync(),
		redsyncGoRedis(), redsyncGoRedisQuick(), redsyncRueidis(),
		redislockGoRedis(), redislockQuick(), rueidisLock(),
		redissonAsWritten(), redissonJava(), etcdConcurrency(),
		rawRueidis(), rawGoRedis(), scriptsRueidis(), scriptsGoRedis(), scriptsSocket(),
	}
}

// OtherSpecs returns every Peer of the stores other than Redis, in the order of the tables.
func OtherSpecs() []Spec {
	return []Spec{
		holdfastEtcd(), etcdConcurrency(), etcdSession(),
		holdfastZooKeeper(), zkLock(), curator(),
		holdfastPostgreSQL(), holdfastPostgreSQLLooks(), pgAdvisory(), pgForUpdate(), pgHeartbeat(), pgHeartbeatQuick(), pgBare(),
		holdfastMySQL(), mysqlGetLock(), mysqlForUpdate(), mysqlHeartbeat(), mysqlHeartbeatQuick(), mysqlBare(),
	}
}

// Find returns the Spec with a name.
func Find(name string) (Spec, error) {
	for _, s := range append(Specs(), OtherSpecs()...) {
		if s.Name == name {
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf("no peer is named %q", name)
}

// Is reports whether the Peer has an ability.
func (s Spec) Is(a Ability) bool {
	for _, have := range s.Can {
		if have == a {
			return true
		}
	}
	return false
}

// errNotHeld says that an Unlock found nothing of its own to delete.
var errNotHeld = errors.New("the lock was not held any more")
