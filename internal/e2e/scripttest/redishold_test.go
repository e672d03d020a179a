package scripttest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Package redishold on a real server.

// A connection of rueidis starts goroutines at any call, not only when it is made: what
// is left is known when all connections are closed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns a Conn to addr that ends with t.
func connect(t *testing.T, addr, user, password string) redishold.Conn {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, Username: user, Password: password,
		DisableCache: true, DisableRetry: true, ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn := rueidisconn.New(client)
	t.Cleanup(func() {
		conn.Close()
		client.Close()
	})
	return conn
}

// startStore returns a server that ends with t, and a store on it.
func startStore(t *testing.T, o *redishold.Options, opts ...redistest.Option) (*redistest.Server, *redishold.Backend) {
	t.Helper()
	server := redistest.Start(t, opts...)
	return server, redishold.New(connect(t, server.Addr(), "", ""), o)
}

const clientID = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11"

func claim(name, number string) driver.Claim {
	seq, _ := strconv.ParseUint(number, 10, 64)
	return driver.Claim{
		Name: name, Client: clientID, Seq: seq, Owner: clientID + ":" + number, TTL: 20 * time.Second, Count: 1, Tokens: 1, Note: "ci@host:4121",
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustTry(t *testing.T, b driver.Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o, err := b.Try(bounded(t), c)
	if err != nil {
		t.Fatalf("Try: %v", err)
	}
	return o
}

func TestRedisholdConformance(t *testing.T) {
	_, b := startStore(t, nil)
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
}

func isTokenCounter(key string) bool { return strings.Contains(key, "holdfast:token:") }

func TestRedisholdNamesRedissonClients(t *testing.T) {
	server, b := startStore(t, nil)
	server.Int("HSET", "stock:42", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57", "1")
	once := claim("stock:42", "1")
	once.NoQueue = true
	o := mustTry(t, b, once)
	if o.Granted || o.Holder != "Redisson client 71b96ce8… thread 57" || o.RetryAfter != 0 {
		t.Fatalf("got %+v, want busy forever, held by a Redisson client", o)
	}
}

func TestRedisholdReportsWhyALockIsGone(t *testing.T) {
	var logged bytes.Buffer
	server, b := startStore(t, &redishold.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, redistest.MaxMemory("0", "allkeys-lru"))
	for _, step := range []struct {
		name   string
		lose   func(t *testing.T, c driver.Claim)
		reason driver.Reason
		detail string
	}{
		{"deleted", func(*testing.T, driver.Claim) { server.Int("DEL", "stock:42") }, driver.ReasonDeleted, "the key is gone"},
		{"taken", func(_ *testing.T, c driver.Claim) {
			server.Int("DEL", "stock:42")
			if c.ReadWrite {
				server.Int("HSET", "stock:42", "mode", "write", "x:9:write", "1")
			} else {
				server.Int("HSET", "stock:42", "x:9", "1")
			}
			server.Int("PEXPIRE", "stock:42", "20000")
		}, driver.ReasonNotOwner, "now held by x:9"},
		{"overwritten", func(*testing.T, driver.Claim) { server.String("SET", "stock:42", "text") }, driver.ReasonDeleted, "overwritten"},
		{"flushed", func(*testing.T, driver.Claim) { server.String("FLUSHALL") }, driver.ReasonDeleted, "lost its data"},
		{"forced", func(t *testing.T, c driver.Claim) {
			for owner, h := range mustLook(t, b, c.Name) {
				mustForce(t, b, c.Name, h, "stuck deploy")
				wantForced(t, b, c.Name, owner, "stuck deploy")
				wantForced(t, b, c.Name, owner+"0", "")
			}
		}, driver.ReasonForced, "stuck deploy"},
	} {
		for _, kind := range []string{"mutex", "read", "write"} {
			t.Run(step.name+"/"+kind, func(t *testing.T) {
				c := kindClaim(kind, "stock:42", "1")
				c.Owner = clientID + ":" + step.name + kind
				server.Do("DEL", "stock:42")
				mustGrant(t, b, c)
				step.lose(t, c)
				renewals, err := b.Renew(bounded(t), []driver.Claim{c})
				var gone *driver.GoneError
				if err != nil || !errors.As(renewals[0].Err, &gone) || gone.Reason != step.reason || !strings.Contains(gone.Detail, step.detail) {
					t.Errorf("Renew: got %+v and error %v, want %s: %s", renewals, err, step.reason, step.detail)
				}
				if err := b.Release(bounded(t), c); !errors.Is(err, driver.ErrGone) {
					t.Errorf("Release: got %v, want ErrGone", err)
				}
			})
		}
	}
	if !strings.Contains(logged.String(), "allkeys-lru") {
		t.Errorf("log: got %q, want a warning of the eviction policy", logged.String())
	}
}

func TestRedisholdReportsEviction(t *testing.T) {
	server, b := startStore(t, nil, redistest.MaxMemory("0", "allkeys-random"))
	c := claim("stock:42", "1")
	mustTry(t, b, c)
	server.String("CONFIG", "SET", "maxmemory", "1")
	server.Do("SET", "one", "more") // evicts everything
	server.String("CONFIG", "SET", "maxmemory", "0")
	renewals, err := b.Renew(bounded(t), []driver.Claim{c})
	var gone *driver.GoneError
	if err != nil || !errors.As(renewals[0].Err, &gone) || gone.Reason != driver.ReasonEvicted {
		t.Fatalf("got %+v and error %v, want Evicted", renewals, err)
	}
}

func TestRedisholdWaitsWithoutTheRightToListen(t *testing.T) {
	server := redistest.Start(t)
	server.String("ACL", "SETUSER", "deaf", "reset", "on", ">secret", "~*", "&*", "+@all", "-subscribe")
	var logged bytes.Buffer
	b := redishold.New(connect(t, server.Addr(), "deaf", "secret"), &redishold.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	c := claim("stock:42", "2")
	mustTry(t, b, claim("stock:42", "1"))
	last := mustTry(t, b, c)
	w := b.Waiter(c)
	defer w.Close()
	for range 3 { // it sleeps instead of listening
		mustWait(t, w, last)
	}
	if got := strings.Count(logged.String(), "refuses to subscribe"); got != 1 {
		t.Fatalf("got %d warnings, want 1: %s", got, logged.String())
	}
}

func TestRedisholdFullServerAndReplica(t *testing.T) {
	server, b := startStore(t, nil)
	mustTry(t, b, claim("other", "1"))
	keys := server.Keys()

	server.String("CONFIG", "SET", "maxmemory", "1")
	_, err := b.Try(bounded(t), claim("stock:42", "1"))
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("full server: got %v, want OOM as ErrRefused and ErrNotExecuted", err)
	}
	if got := server.Keys(); !slices.Equal(got, keys) {
		t.Fatalf("full server: keys were %q, are %q", keys, got)
	}
	server.String("CONFIG", "SET", "maxmemory", "0")

	server.String("REPLICAOF", "127.0.0.1", "1")
	server.String("CONFIG", "SET", "replica-serve-stale-data", "yes")
	_, err = b.Try(bounded(t), claim("stock:42", "1"))
	if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Fatalf("replica: got %v, want READONLY as ErrNotExecuted", err)
	}

	fresh := redishold.New(connect(t, server.Addr(), "", ""), nil)
	_, err = fresh.Try(bounded(t), claim("stock:42", "1"))
	if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Fatalf("probe of a replica: got %v, want READONLY as ErrNotExecuted", err)
	}
}

// Every kind of lock works on the server that many use in their tests.
func TestRedisholdOnMiniredis(t *testing.T) {
	for _, kind := range []string{"mutex", "fair", "write", "read", "permit"} {
		t.Run(kind, func(t *testing.T) {
			b := redishold.New(connect(t, miniredis.RunT(t).Addr(), "", ""), nil)
			useByTwo(t, b, kind, "stock:42")
			one, two := kindClaim(kind, "stock:43", "1"), kindClaim(kind, "stock:43", "2")
			if kind != "read" {
				takeTurns(t, b, one, two)
			}
			mustGrant(t, b, two)
			mustForce(t, b, two.Name, mustLook(t, b, two.Name)[two.Owner], "why")
			mustRenewAsGone(t, b, two)
		})
	}
	b := redishold.New(connect(t, miniredis.RunT(t).Addr(), "", ""), nil)
	useCounters(t, b, jobs)
}
