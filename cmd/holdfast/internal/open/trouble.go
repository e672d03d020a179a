package open

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

const (
	troubleLimit = 400 * time.Millisecond // for the servers to report what is wrong
	stragglers   = 100 * time.Millisecond // for the others, after the first report
)

// Trouble asks the servers whether locks can be taken. It returns why not, or nil if no
// server reports trouble. It also returns nil if no server answers in time.
func (s *Store) Trouble(ctx context.Context) error {
	if s.trouble == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, troubleLimit)
	defer cancel()
	if err := s.trouble(ctx); err != nil {
		return unreachable(s.Kind, s.where, err)
	}
	return nil
}

// ErrReadOnly is the error of a store in which locks can be read, but not taken.
var ErrReadOnly = errors.New("the server is read-only, so no lock can be taken there")

var errNoMajority = errors.New("no majority of its members is up and connected, so it does not work")

// anyWorks asks all servers. It returns nil if one of them works, or if none reports that it
// does not work. Otherwise it returns errNoMajority, with the number of servers that reported
// this.
func anyWorks(ctx context.Context, servers []string, ask func(ctx context.Context, server string) (works bool, err error)) error {
	idle, working := 0, false
	var late *time.Timer
	askAll(ctx, servers, ask, func(works bool, err error, cancel context.CancelFunc) {
		switch {
		case err != nil:
		case works:
			working = true
			cancel()
		default:
			if idle++; idle == 1 {
				late = time.AfterFunc(stragglers, cancel)
			}
		}
	})
	if late != nil {
		late.Stop()
	}
	if working || idle == 0 {
		return nil
	}
	return fmt.Errorf("%w (%d of the %d in the URL answer)", errNoMajority, idle, len(servers))
}

// etcdTrouble returns Trouble for etcd. A member knows a leader only if the leader is
// connected to a majority.
func etcdTrouble(client *clientv3.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		return anyWorks(ctx, client.Endpoints(), func(ctx context.Context, server string) (bool, error) {
			r, err := client.Status(ctx, server)
			if err != nil {
				return false, err
			}
			return r.Leader != 0, nil
		})
	}
}

// zooKeeperTrouble returns Trouble for ZooKeeper. A server without a majority reports that it
// does not serve requests.
func zooKeeperTrouble(z *zooKeeper) func(context.Context) error {
	return func(ctx context.Context) error {
		return anyWorks(ctx, z.servers, func(ctx context.Context, server string) (bool, error) {
			said, err := z.words(ctx, server, "srvr")
			return !strings.Contains(said, "not currently serving requests"), err
		})
	}
}

func postgresTrouble(pool *pgxpool.Pool) func(context.Context) error {
	return func(ctx context.Context) error {
		var readOnly string
		err := pool.QueryRow(ctx, "SHOW transaction_read_only", pgx.QueryExecModeExec).Scan(&readOnly)
		if err != nil || readOnly != "on" {
			return nil
		}
		return ErrReadOnly
	}
}

// mysqlTrouble returns Trouble for MySQL. Users with one of these privileges may write on a
// server that is read-only.
func mysqlTrouble(db *sql.DB) func(context.Context) error {
	const query = "SELECT @@global.read_only AND NOT EXISTS (SELECT 1 FROM information_schema.user_privileges" +
		" WHERE REPLACE(grantee, '''', '') = CURRENT_USER() AND privilege_type IN ('SUPER', 'CONNECTION_ADMIN', 'READ ONLY ADMIN', 'READ_ONLY ADMIN'))"
	return func(ctx context.Context) error {
		var readOnly bool
		if err := db.QueryRowContext(ctx, query).Scan(&readOnly); err != nil || !readOnly {
			return nil
		}
		return ErrReadOnly
	}
}

// redisTrouble returns Trouble for Redis. A replica takes no writes.
func redisTrouble(conn *rueidisconn.Conn) func(context.Context) error {
	return func(ctx context.Context) error {
		info, err := conn.Server(ctx)
		if err != nil || info.Cluster || info.Role != "slave" && info.Role != "replica" {
			return nil
		}
		return fmt.Errorf("%w: it is a replica, and its master is meant", ErrReadOnly)
	}
}
