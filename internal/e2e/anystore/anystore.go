// Package anystore starts a real server of any store that is no Redis, and opens
// Backends over it, all behind one interface.
package anystore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
)

// The stores.
const (
	Etcd       = "etcd"       // of one member
	ZooKeeper  = "zookeeper"  // of one server
	PostgreSQL = "postgresql" // without a standby
	MariaDB    = "mariadb"    // the same
	MySQL      = "mysql"      // the same; the server that sqltest.MySQLEnv names
)

// Names returns the names of all stores.
func Names() []string { return append([]string{Etcd, ZooKeeper}, Databases()...) }

// Databases returns the names of those in which a lock is a row with a lease of its own.
func Databases() []string { return []string{PostgreSQL, MariaDB, MySQL} }

// Server is what a test breaks of a store.
type Server interface {
	Kill()          // ends it at once
	Restart() error // starts it again, with its data
	Pause() error   // stops its processes, until Resume
	Resume() error  // lets them go on
}

// Store is one server, which keeps what it acknowledged over a crash.
type Store struct {
	Server
	Addr   string                                  // "host:port"
	Queues bool                                    // a waiter has a place, which outlives it by its lease
	Held   func(context.Context) ([]string, error) // the names of all claims: of holders and, where it queues, of waiters
	Close  func()
}

// ErrMissing says that the program of a store is not there.
var ErrMissing = errors.New("the store is not there")

// Run starts the server of a store, with its data in dir. The caller must call Close,
// and dir is the caller's to remove.
func Run(name, dir string) (*Store, error) {
	switch name {
	case Etcd:
		s, err := etcdtest.Run(dir)
		if err != nil {
			return nil, noStore(etcdtest.ProgramEnv, err)
		}
		return openEtcd(s)
	case ZooKeeper:
		s, err := zktest.Run(dir)
		if err != nil {
			return nil, noStore(zktest.JarsEnv, err)
		}
		return &Store{Server: s, Addr: s.Addr(), Queues: true, Held: claimsOf(s), Close: s.Kill}, nil
	case PostgreSQL:
		return openSQL(name)(sqltest.RunPostgreSQL("log_min_messages=fatal", "log_min_error_statement=panic"))
	case MariaDB:
		return openSQL(name)(sqltest.RunMariaDB(durable))
	case MySQL:
		if os.Getenv(sqltest.MySQLEnv) == "" { // RunMySQL would run MariaDB
			return nil, fmt.Errorf("%w: %s does not name a server of MySQL", ErrMissing, sqltest.MySQLEnv)
		}
		return openSQL(name)(sqltest.RunMySQL(durable))
	default:
		return nil, fmt.Errorf("no store %q", name)
	}
}

// durable has the log of MariaDB and MySQL with the system after each commit: a crash of
// the server loses none.
const durable = "--innodb-flush-log-at-trx-commit=2"

// noStore says that the variable which names the store's program is not set, if it is not.
func noStore(variable string, err error) error {
	if os.Getenv(variable) == "" {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return err
}

func openEtcd(s *etcdtest.Server) (*Store, error) {
	client, err := s.Dial()
	if err != nil {
		s.Kill()
		return nil, err
	}
	held := func(ctx context.Context) (names []string, err error) {
		r, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return nil, err
		}
		for _, kv := range r.Kvs {
			if key := string(kv.Key); !strings.HasPrefix(key, "holdfast.forced/") { // a reason, which passes
				names = append(names, key)
			}
		}
		return names, nil
	}
	addr := strings.TrimPrefix(s.Addr(), "http://")
	return &Store{Server: s, Addr: addr, Queues: true, Held: held, Close: func() {
		_ = client.Close()
		s.Kill()
	}}, nil
}

// claimsOf lists the nodes of claims. The nodes of names stay until the server finds
// them empty.
func claimsOf(s *zktest.Server) func(context.Context) ([]string, error) {
	return func(context.Context) (names []string, err error) {
		conn, err := s.Dial()
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var walk func(path string) error
		walk = func(path string) error {
			children, _, err := conn.Children(path)
			if errors.Is(err, zk.ErrNoNode) {
				return nil // gone since
			}
			for _, child := range children {
				below := strings.TrimSuffix(path, "/") + "/" + child
				found, stat, err := conn.Exists(below)
				switch {
				case err != nil:
					return err
				case found && stat.EphemeralOwner != 0:
					names = append(names, below)
				case below != "/zookeeper":
					if err := walk(below); err != nil {
						return err
					}
				}
			}
			return err
		}
		return names, walk("/")
	}
}

// openSQL makes the table, and lists the rows of locks that are held or waited for.
func openSQL(name string) func(*sqltest.Server, error) (*Store, error) {
	return func(s *sqltest.Server, err error) (*Store, error) {
		if errors.Is(err, sqltest.ErrMissing) {
			return nil, fmt.Errorf("%w: %w", ErrMissing, err)
		}
		if err != nil {
			return nil, err
		}
		db, err := sql.Open(s.Driver, s.Name)
		if err == nil {
			err = prepare(name, s.Addr())
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		now := map[string]string{"pgx": "now()", "mysql": "UTC_TIMESTAMP(6)"}[s.Driver]
		held := func(ctx context.Context) (names []string, err error) {
			found, err := db.QueryContext(ctx, "SELECT name FROM holdfast_locks WHERE owner <> '' AND expires > "+now)
			if err != nil {
				return nil, err
			}
			defer found.Close()
			for found.Next() {
				var name string
				if err := found.Scan(&name); err != nil {
					return nil, err
				}
				names = append(names, name)
			}
			return names, found.Err()
		}
		return &Store{Server: s, Addr: s.Addr(), Held: held, Close: func() {
			_ = db.Close()
			s.Close()
		}}, nil
	}
}

// Left returns the names of claims that contain mark.
func (s *Store) Left(mark string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	names, err := s.Held(ctx)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, name := range names {
		if strings.Contains(name, mark) {
			left = append(left, name)
		}
	}
	return left, nil
}
