package faqtest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
)

// onEtcd returns the error of a TryLock on a server of that version, which answers all calls
// but the one for its version with an error.
func onEtcd(version string, answer error) produce {
	return func(t *testing.T) string {
		answers := func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			if status, ok := reply.(*etcdserverpb.StatusResponse); ok && version != "" {
				status.Version = version
				return nil
			}
			return answer
		}
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop(),
			DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(answers)},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		return try(t, etcdhold.New(client, nil), "job")
	}
}

// try returns the error of a TryLock.
func try(t *testing.T, b driver.Backend, name string) string {
	t.Helper()
	l := holdfast.New(b, nil)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Drain(ctx) // a store that refuses may refuse the releases, too
	}()
	_, err := l.TryLock(await.Context(t, 10*time.Second), name)
	return words(t, err)
}

func etcdMessages() map[string]produce {
	return map[string]produce{
		"etcdserver: too many requests": onEtcd("", rpctypes.ErrGRPCRequestTooManyRequests),
		"etcd has reached its disk quota; compact and defragment it, then disarm the alarm": onEtcd("3.7.3", rpctypes.ErrGRPCNoSpace),
		"etcd does not let this user use the keys of the lock":                              onEtcd("3.7.3", rpctypes.ErrGRPCPermissionDenied),
		"the lease in etcd has ended":                                                       onEtcd("3.7.3", rpctypes.ErrGRPCLeaseNotFound),
		"is too old for locks":                                                              onEtcd("3.4.31", nil),
	}
}

// onPostgreSQL returns the error of a TryLock in a database that was prepared.
func onPostgreSQL(prepare func(t *testing.T, b *pghold.Backend, db *sql.DB) (user string), settings ...string) produce {
	return func(t *testing.T) string {
		url, db := sqltest.StartPostgreSQL(t, settings...)
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		if user := prepare(t, pghold.NewDB(db, nil), db); user != "" {
			config.ConnConfig.User = user
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		return try(t, pghold.New(pool, nil), "job")
	}
}

// run runs statements.
func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// occupy opens connections until the server refuses one.
func occupy(t *testing.T, db *sql.DB) {
	t.Helper()
	db.SetMaxOpenConns(0)
	for range 200 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the server has room for 200 connections")
}

func sqlMessages() map[string]produce {
	return map[string]produce{
		"there is no table …: call CreateTable once, or create the table with:": onPostgreSQL(func(*testing.T, *pghold.Backend, *sql.DB) string { return "" }),
		"is not as it must be, see …": onPostgreSQL(func(t *testing.T, b *pghold.Backend, db *sql.DB) string {
			run(t, db, b.Schema(), "ALTER TABLE holdfast_locks DROP COLUMN expires")
			return ""
		}),
		"permission denied for table": onPostgreSQL(func(t *testing.T, b *pghold.Backend, db *sql.DB) string {
			run(t, db, b.Schema(), "CREATE ROLE poor LOGIN")
			return "poor"
		}),
		"sorry, too many clients already": onPostgreSQL(func(t *testing.T, b *pghold.Backend, db *sql.DB) string {
			run(t, db, b.Schema())
			occupy(t, db)
			return ""
		}, "max_connections=10"),
		"Too many connections": func(t *testing.T) string {
			dsn, db := sqltest.StartMariaDB(t, "--max-connections=10")
			occupy(t, db)
			return onMySQL(t, dsn)
		},
		"sessions do not commit by themselves: remove autocommit=0": func(t *testing.T) string {
			dsn, db := sqltest.StartMariaDB(t)
			run(t, db, mysqlhold.New(db, nil).Schema())
			return onMySQL(t, dsn+"?autocommit=0")
		},
	}
}

// onMySQL returns the error of a TryLock in the database with that name.
func onMySQL(t *testing.T, dsn string) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return try(t, mysqlhold.New(db, nil), "job")
}
