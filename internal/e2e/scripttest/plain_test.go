package scripttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// Protocol Plain: its scripts, and redishold with it, on a real server.

// exclusive is a Backend whose protocol has exclusive locks only: without what
// the other methods of redishold's Backend are for.
type exclusive struct {
	admintest.Store
	driver.Batcher
}

func newExclusive(b *redishold.Backend) driver.Backend { return exclusive{b, b} }

const freeChannel = "holdfast:free:{stock:42}"

func TestPlainConformance(t *testing.T) {
	server := redistest.Start(t)
	b := newExclusive(redishold.New(connect(t, server.Addr(), "", ""), &redishold.Options{Layout: redishold.Plain}))
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
}

func TestPollConformance(t *testing.T) {
	server := redistest.Start(t)
	b := redishold.New(connect(t, server.Addr(), "", ""), &redishold.Options{Poll: 20 * time.Millisecond})
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)
	if got := server.CommandStats()["subscribe"]; got != 0 {
		t.Errorf("got %d subscriptions, want none", got)
	}
}

func (b *bench) plainGrant(owner string, ttl, tokens int) int64 {
	b.t.Helper()
	return b.token(b.run("plain_acquire", threeKeys, owner, ttl, tokens))
}

func (b *bench) wantValue(key, want string) {
	b.t.Helper()
	if got := b.String("GET", key); got != want {
		b.t.Fatalf("GET %s: got %q, want %q", key, got, want)
	}
}

func TestPlainLookAndExplain(t *testing.T) {
	b := newBench(t)
	look := func(want any, most int) {
		t.Helper()
		b.want(list(want), "list_plain", threeKeys[:1], most, "")
	}
	look(list("free", n(-2), "", n(-1)), 512)
	b.want(list(n(0), "", "", n(0)), "plain_explain", threeKeys)
	b.plainGrant("b:1", 20000, 1)
	b.String("SET", markKey, "abandoned")
	b.want(list(n(1), "b:1", "abandoned", n(1)), "plain_explain", threeKeys)
	b.String("SET", lockKey, "foreign")
	look(list("string", n(-1), "foreign", n(-1)), 512)
	look(list("other", n(-1), "", n(-1)), 6)
	b.Int("DEL", lockKey)
	b.Int("RPUSH", lockKey, "x")
	b.want(list(n(1), "", "abandoned", n(1)), "plain_explain", threeKeys)
}

// wantNoHalves takes every command from every script in turn. Whatever the
// script does then, no key without a TTL stays.
func (b *bench) wantNoHalves(setup func(owner string), scripts ...script) {
	b.t.Helper()
	for _, s := range scripts {
		for _, command := range commandsOf(b.t, s.name) {
			b.String("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-"+strings.ToLower(command))
			limited := b.login("limited", "secret")
			for _, owner := range []string{"", "a:1", "b:1"} {
				b.String("FLUSHALL")
				if owner != "" {
					setup(owner)
				}
				before := b.Do("GET", lockKey)
				reply, err := eval(b.t, limited, s.name, s.keys, s.args...)
				where := fmt.Sprintf("%s without %s, held by %q: reply %v, error %v", s.name, command, owner, reply, err)
				if stay := b.KeysWithoutTTL(isCounter); len(stay) > 0 {
					b.t.Errorf("%s: keys without TTL %q", where, stay)
				}
				after := b.Do("GET", lockKey)
				if changed := !reflect.DeepEqual(before, after); changed && (owner == "b:1" || owner == "" && err != nil) {
					b.t.Errorf("%s: the lock was %v, is %v", where, before, after)
				}
			}
			_ = limited.Close()
		}
	}
}

func TestPlainMissingRights(t *testing.T) {
	b := newBench(t)
	b.wantNoHalves(func(owner string) { b.plainGrant(owner, 20000, 1) },
		script{"plain_acquire", threeKeys, []any{"a:1", 30000, 1}},
		script{"plain_renew", threeKeys[:1], []any{"a:1", 30000}},
		script{"plain_release", threeKeys[:1], []any{"a:1", freeChannel, "PUBLISH"}},
		script{"plain_abandon", threeKeys[:2], []any{"a:1", 30000, freeChannel, "PUBLISH"}},
	)
}

// otherLibrary does what redsync, redislock, redis-py and node-redlock do on one
// server.
type otherLibrary struct{ client *redis.Client }

func (o otherLibrary) lock(t *testing.T, name, value string, ttl time.Duration) bool {
	t.Helper()
	ok, err := o.client.SetNX(bounded(t), name, value, ttl).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func (o otherLibrary) unlock(t *testing.T, name, value string) bool {
	t.Helper()
	const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`
	deleted, err := o.client.Eval(bounded(t), compareAndDelete, []string{name}, value).Int()
	if err != nil {
		t.Fatal(err)
	}
	return deleted == 1
}

func TestPlainExcludesOtherLibraries(t *testing.T) {
	bench := newBench(t)
	other := otherLibrary{bench.client}
	b := redishold.New(connect(t, bench.Addr(), "", ""), &redishold.Options{Layout: redishold.Plain})
	c := claim("stock:42", "1")
	if o := mustTry(t, b, c); !o.Granted || o.Token == 0 {
		t.Fatalf("got %+v, want a grant with a token", o)
	}
	if other.lock(t, "stock:42", "uuid", time.Minute) || other.unlock(t, "stock:42", "uuid") {
		t.Fatal("another library took or deleted a held lock")
	}
	if err := b.Release(bounded(t), c); err != nil {
		t.Fatalf("Release: %v", err)
	}
	if !other.lock(t, "stock:42", "uuid", 20*time.Second) {
		t.Fatal("another library could not take a free lock")
	}
	o := mustTry(t, b, c)
	if o.Granted || o.Holder != "uuid" || o.RetryAfter <= 15*time.Second || o.RetryAfter > 20*time.Second {
		t.Fatalf("got %+v, want busy for 20s, held by uuid", o)
	}
	if r, err := b.Renew(bounded(t), []driver.Claim{c}); err != nil || !isNotOwner(r[0].Err, "uuid") {
		t.Fatalf("Renew: got %+v and error %v, want NotOwner", r, err)
	}
	if err := b.Release(bounded(t), c); !isNotOwner(err, "uuid") {
		t.Fatalf("Release: got %v, want NotOwner", err)
	}
	bench.Int("PERSIST", "stock:42")
	if o := mustTry(t, b, c); o.Granted || o.RetryAfter != 0 {
		t.Fatalf("a value without TTL: got %+v, want busy for an unknown time", o)
	}
	if !other.unlock(t, "stock:42", "uuid") {
		t.Fatal("the other library's lock is gone")
	}
	bench.Int("HSET", "stock:42", "a:1", "1")
	if _, err := b.Try(bounded(t), c); !errors.Is(err, driver.ErrMismatch) {
		t.Fatalf("a hash: got %v, want ErrMismatch", err)
	}
}

func isNotOwner(err error, detail string) bool {
	var gone *driver.GoneError
	return errors.As(err, &gone) && gone.Reason == driver.ReasonNotOwner && strings.Contains(gone.Detail, detail)
}

func TestPlainLeastRightsAreEnough(t *testing.T) {
	for _, protocol := range []redishold.Layout{redishold.Plain, redishold.Timestamp} {
		server := redistest.Start(t)
		server.String("ACL", "SETUSER", "least", "reset", "on", ">secret", "~stock:*", "~holdfast:*", "resetchannels", "&holdfast:free:*",
			"+eval", "+evalsha", "+script|load", "+subscribe", "+unsubscribe", "+publish", "+info", "+hello", "+ping", "+client",
			"+exists", "+del", "+pexpire", "+pttl", "+get", "+getrange", "+set", "+time")
		b := redishold.New(connect(t, server.Addr(), "least", "secret"), &redishold.Options{Layout: protocol})
		first, second := claim("stock:42", "1"), claim("stock:42", "2")
		mustTry(t, b, first)
		last := mustTry(t, b, second)
		w := b.Waiter(second)
		defer w.Close()
		if _, err := w.Wait(bounded(t), last); err != nil { // subscribes
			t.Fatalf("%s: Wait: %v", protocol, err)
		}
		last = mustTry(t, b, second)
		if err := b.Release(bounded(t), first); err != nil {
			t.Fatalf("%s: Release: %v", protocol, err)
		}
		if _, err := w.Wait(bounded(t), last); err != nil {
			t.Fatalf("%s: Wait: %v", protocol, err)
		}
		if o := mustTry(t, b, second); !o.Granted {
			t.Fatalf("%s: got %+v, want a grant", protocol, o)
		}
		holders, err := dial.Holders(bounded(t), b, "stock:42")
		if err != nil || len(holders) != 1 || holders[0].Owner != second.Owner {
			t.Fatalf("%s: Get: got %+v and error %v", protocol, holders, err)
		}
		if err := b.ForceUnlock(context.WithoutCancel(bounded(t)), "stock:42", holders[0], "why"); err != nil {
			t.Fatalf("%s: Break: %v", protocol, err)
		}
		wantForced(t, b, "stock:42", holders[0].Owner, "why")
	}
}

func TestSharedTokensRiseOverGoAndJava(t *testing.T) {
	server := redistest.Start(t)
	b := redishold.New(connect(t, server.Addr(), "", ""), &redishold.Options{SharedTokens: true})
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return b }, TTL: time.Second}.Run(t)

	var last uint64
	for i := range 4 {
		c := claim("stock:42", fmt.Sprint(i))
		o := mustTry(t, b, c)
		if !o.Granted || o.Token <= last {
			t.Fatalf("got %+v, want a token of more than %d", o, last)
		}
		again := mustTry(t, b, c)
		if again.Token < o.Token {
			t.Fatalf("a repeated Try: got token %d after %d", again.Token, o.Token)
		}
		if err := b.Release(bounded(t), c); err != nil {
			t.Fatal(err)
		}
		last = uint64(server.Int("INCR", "redisson_lock_token:{stock:42}")) // what RFencedLock does
		if last != again.Token+1 {
			t.Fatalf("Java's token: got %d, want the one after %d", last, again.Token)
		}
		if i%2 == 1 { // a counter that is ahead of the clock, as after a clock that was set back
			last = uint64(server.Int("INCRBY", "redisson_lock_token:{stock:42}", "3600000000"))
		}
	}
}

func TestPlainAndTimestampInACluster(t *testing.T) {
	server := startCluster(t)
	conn := connect(t, server.Addr(), "", "")
	heard := server.ListenSharded("holdfast:free::{t1}:orders")
	for _, o := range []redishold.Options{
		{Layout: redishold.Plain},
		{Layout: redishold.Timestamp},
		{Layout: redishold.Timestamp, KeyPrefix: "app:"},
		{Layout: redishold.Timestamp, KeyPrefix: "{app}:"},
		{SharedTokens: true},
		{SharedTokens: true, KeyPrefix: "app:"},
	} {
		server.String("FLUSHALL") // marks of owners given up
		b := redishold.New(conn, &o)
		for _, name := range []string{"orders", "{t1}:orders", "a{b}c{d"} {
			c := claim(name, "1")
			if got := mustTry(t, b, c); !got.Granted {
				t.Fatalf("%+v, name %q: got %+v, want a grant", o, name, got)
			}
			mustRenewOn(t, b, c)
			if err := b.Release(bounded(t), c); err != nil {
				t.Fatalf("%+v, name %q: Release: %v", o, name, err)
			}
			c.Indeterminate = true
			if err := b.Release(bounded(t), c); !errors.Is(err, driver.ErrGone) {
				t.Fatalf("%+v, name %q: Release: got %v, want ErrGone", o, name, err)
			}
			if _, err := b.Renew(bounded(t), []driver.Claim{c}); err != nil { // also looks up why
				t.Fatalf("%+v, name %q: Renew: %v", o, name, err)
			}
		}
	}
	if got := heard.Wait(1); got[0].Payload != "0" {
		t.Fatalf("sharded channel: got %v, want 0", got)
	}
}
