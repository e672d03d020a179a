package storestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
	"github.com/holdfast-go/holdfast/zkhold"
)

// refusing is a store that begins to refuse its clients, until it is repaired.
type refusing struct {
	open           func() driver.Backend
	refuse, repair func()
}

// A store refuses for a while: all candidates and a waiter go on, and say why they wait. After
// the repair one of the candidates leads, and the waiter gets its lock.
func TestRefusalOfSeconds(t *testing.T) {
	await.NotShort(t, "waits for leases to end")
	for _, test := range []struct {
		name  string
		start func(*testing.T) refusing
	}{
		{"redis, no permission", func(t *testing.T) refusing {
			return refusingRedis(t, []string{"ACL", "SETUSER", "app", "-evalsha", "-eval"}, []string{"ACL", "SETUSER", "app", "+@all"})
		}},
		{"redis, password changed", func(t *testing.T) refusing {
			return refusingRedis(t, []string{"ACL", "SETUSER", "app", "resetpass", ">other"}, []string{"ACL", "SETUSER", "app", "resetpass", ">secret"})
		}},
		{"etcd, no permission", refusingEtcd},
		{"postgresql, no login", func(t *testing.T) refusing {
			return refusingPostgreSQL(t, "ALTER ROLE app NOLOGIN", "ALTER ROLE app LOGIN")
		}},
		{"postgresql, no permission", func(t *testing.T) refusing {
			return refusingPostgreSQL(t, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM app", "GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
		}},
		{"mariadb, password changed", refusingMariaDB},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testRefusal(t, test.start(t))
		})
	}
}

const refusedTTL = 3 * time.Second

func testRefusal(t *testing.T, s refusing) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	const candidates = 2
	logs, terms := make([]refusals, candidates), make(chan uint64, 100)
	for i := range candidates {
		logs[i] = make(refusals, 1000)
		l := holdfast.New(s.open(), &holdfast.Options{TTL: refusedTTL})
		e := elect.New(l.Mutex("leader"))
		e.Logger = slog.New(logs[i])
		running.Go(func() {
			err := e.Run(ctx, func(term context.Context, lock *holdfast.Lock) error {
				terms <- lock.Token()
				<-term.Done()
				return nil
			})
			if ctx.Err() == nil {
				t.Errorf("candidate %d ended: %v", i, err)
			}
			must.Drain(t, l)
		})
	}
	first := receive(t, terms, "a first term")

	holder := holdfast.New(s.open(), &holdfast.Options{TTL: refusedTTL})
	held := must.Lock(t, holder, "job")
	defer must.Drain(t, holder)
	waits, refused, got := make(chan struct{}, 1), make(chan error, 1000), make(chan error, 1)
	waiting := holdfast.New(s.open(), &holdfast.Options{TTL: refusedTTL, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventWait {
			waits <- struct{}{}
		}
	}})
	running.Go(func() {
		lock, err := waiting.Lock(ctx, "job", holdfast.RetryRefused(func(err error, _ time.Duration) { refused <- err }))
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
		must.Drain(t, waiting)
	})
	receive(t, waits, "the waiter waits")

	s.refuse()
	receive(t, held.Context(t.Context()).Done(), "the holder loses its lock")
	receive(t, refused, "the waiter is refused")
	for i, log := range logs {
		receive(t, log, fmt.Sprintf("candidate %d says that it is refused", i))
	}
	s.repair()
	if second := receive(t, terms, "a term after the repair"); second <= first {
		t.Errorf("got token %d after %d", second, first)
	}
	if err := receive(t, got, "the waiter's lock"); err != nil {
		t.Errorf("the waiter: %v", err)
	}
}

// refusals is the Handler of a Logger, and gets a value for each line that says so.
type refusals chan struct{}

func (r refusals) Enabled(context.Context, slog.Level) bool { return true }
func (r refusals) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r refusals) WithGroup(string) slog.Handler            { return r }

func (r refusals) Handle(_ context.Context, line slog.Record) error {
	if line.Message == "the store refuses the campaign, asking again" {
		r <- struct{}{}
	}
	return nil
}

// receive returns the next value of a channel, also the zero value of a closed one.
func receive[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
	return v
}

func refusingRedis(t *testing.T, refuse, repair []string) refusing {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	return refusing{
		open: func() driver.Backend {
			conn, err := rueidisconn.Open(t.Context(), "redis://app:secret@"+server.Addr(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(conn.Close)
			return redishold.New(conn, nil)
		},
		refuse: func() {
			server.Do(refuse...)
			server.Do("CLIENT", "KILL", "USER", "app")
		},
		repair: func() { server.Do(repair...) },
	}
}

func refusingEtcd(t *testing.T) refusing {
	server := etcdtest.Start(t)
	client, ctx := server.Client(t), t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(client.UserAdd(ctx, "root", "secret"))
	do(client.UserGrantRole(ctx, "root", "root"))
	do(client.UserAdd(ctx, "app", "secret"))
	do(client.RoleAdd(ctx, "locks"))
	grant := func(by *clientv3.Client) {
		t.Helper()
		do(by.RoleGrantPermission(ctx, "locks", "\x00", "\x00", clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	grant(client)
	do(client.UserGrantRole(ctx, "app", "locks"))
	do(client.AuthEnable(ctx))
	login := func(user string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: user, Password: "secret", Logger: zap.NewNop(), DialTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	root := login("root")
	return refusing{
		open: func() driver.Backend {
			return etcdhold.New(login("app"), &etcdhold.Options{TTL: refusedTTL})
		},
		refuse: func() { do(root.RoleRevokePermission(ctx, "locks", "\x00", "\x00")) },
		repair: func() { grant(root) },
	}
}

// A ZooKeeper asks for permissions only when a claim makes a node. So holders and waiters notice
// nothing, and a new claim waits for the repair.
func TestRefusalOfSecondsInZooKeeper(t *testing.T) {
	server := zktest.Start(t)
	admin := server.Client(t)
	if err := admin.AddAuth("digest", []byte("admin:secret")); err != nil {
		t.Fatal(err)
	}
	b := zkhold.New([]string{server.Addr()}, &zkhold.Options{TTL: refusedTTL})
	defer b.Close()
	l := holdfast.New(b, nil)
	must.Unlock(t, must.Lock(t, l, "job"))
	if _, err := admin.Create("/leader", nil, 0, zk.DigestACL(zk.PermAll, "admin", "secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "leader"); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("got %v, want ErrDenied at once", err)
	}
	refused, got := make(chan error, 1000), make(chan error, 1)
	go func() {
		lock, err := l.Lock(t.Context(), "leader", holdfast.RetryRefused(func(err error, _ time.Duration) { refused <- err }))
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	receive(t, refused, "a refusal")
	if _, err := admin.SetACL("/leader", zk.WorldACL(zk.PermAll), -1); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, got, "the lock after the repair"); err != nil {
		t.Error(err)
	}
	must.Drain(t, l)
}

func refusingPostgreSQL(t *testing.T, refuse, repair string) refusing {
	at, db := sqltest.StartPostgreSQL(t)
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE ROLE app LOGIN")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	open := func(user string) *pghold.Backend {
		as := *u
		as.User = url.User(user)
		pool, err := pgxpool.New(t.Context(), as.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pghold.New(pool, nil)
	}
	if err := open(u.User.Username()).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
	return refusing{
		open: func() driver.Backend { return open("app") },
		refuse: func() {
			exec(refuse)
			exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
		},
		repair: func() { exec(repair) },
	}
}

func refusingMariaDB(t *testing.T) refusing {
	server := sqltest.Start(t, sqltest.RunMariaDB, "--bind-address=127.0.0.1")
	db, err := sql.Open(server.Driver, server.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE USER app IDENTIFIED BY 'secret'")
	exec("GRANT ALL ON test.* TO app")
	if err := mysqlhold.New(db, nil).CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return refusing{
		open: func() driver.Backend {
			pool, err := sql.Open("mysql", "app:secret@tcp("+server.Addr()+")/test?interpolateParams=true")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pool.Close() })
			return mysqlhold.New(pool, nil)
		},
		refuse: func() {
			exec("ALTER USER app IDENTIFIED BY 'other'")
			exec("KILL CONNECTION USER app")
		},
		repair: func() { exec("ALTER USER app IDENTIFIED BY 'secret'") },
	}
}
