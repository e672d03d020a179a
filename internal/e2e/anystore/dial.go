package anystore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/zkhold"
)

// Dial returns a Backend over a store at addr, and how to close what is below it. Of a
// store with sessions ttl is theirs.
func Dial(name, addr string, ttl time.Duration) (b driver.Backend, shut func(), err error) {
	switch name {
	case Etcd:
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"http://" + addr}, Logger: zap.NewNop(),
			DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second, // a silent link is given up
			DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{ // and soon tried again
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: time.Second,
			})},
		})
		if err != nil {
			return nil, nil, err
		}
		return etcdhold.New(client, &etcdhold.Options{TTL: ttl}), func() { _ = client.Close() }, nil
	case ZooKeeper:
		b := zkhold.New([]string{addr}, &zkhold.Options{TTL: ttl})
		return b, b.Close, nil
	case PostgreSQL:
		pool, err := pgxpool.New(context.Background(), fmt.Sprintf("postgres://test@%s/postgres?sslmode=disable&pool_max_conns=8", addr))
		if err != nil {
			return nil, nil, err
		}
		return pghold.New(pool, &pghold.Options{Listen: pool.Config().ConnConfig}), pool.Close, nil
	case MariaDB, MySQL:
		db, err := sql.Open("mysql", "test@tcp("+addr+")/test?interpolateParams=true")
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
		return mysqlhold.New(db, nil), func() { _ = db.Close() }, nil
	default:
		return nil, nil, fmt.Errorf("no store %q", name)
	}
}

// prepare makes the table of a database.
func prepare(name, addr string) error {
	b, shut, err := Dial(name, addr, 0)
	if err != nil {
		return err
	}
	defer shut()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if maker, ok := b.(interface{ CreateTable(context.Context) error }); ok {
		return maker.CreateTable(ctx)
	}
	return nil
}

// Quiet keeps the MySQL driver from writing about each connection that broke.
func Quiet() { _ = mysql.SetLogger(&mysql.NopLogger{}) }
