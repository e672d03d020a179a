package scripttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

func TestPlainAcquire(t *testing.T) {
	b := newBench(t)
	first := b.plainGrant("a:1", 20000, 3)
	b.wantValue(lockKey, "a:1")
	b.wantTTL(lockKey, 20000)
	if second := b.plainGrant("a:1", 10000, 1); second < first+3 {
		t.Fatalf("token of a repeated acquire: got %d, want beyond the block that began at %d", second, first)
	}
	b.wantTTL(lockKey, 20000) // not shortened
	b.plainGrant("a:1", 60000, 1)
	b.wantTTL(lockKey, 60000)
	b.Int("PERSIST", lockKey)
	b.plainGrant("a:1", 30000, 1)
	b.wantTTL(lockKey, 30000) // repaired
	b.wantNothingStays()

	b.Int("DEL", lockKey, counterKey)
	if third := b.plainGrant("b:1", 20000, 1); third <= first+3 {
		t.Fatalf("token after a lost counter: got %d, want more than %d", third, first+3)
	}
}

func TestPlainAcquireRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup []string
		want  any // nil: an error that has words
		words string
	}{
		{"another library", []string{"SET", lockKey, "MTIzNDU2Nzg5MDEyMzQ1Ng==", "NX", "PX", "20000"}, list(n(0), "ttl", "MTIzNDU2Nzg5MDEyMzQ1Ng==", "1"), ""},
		{"a value without TTL", []string{"SET", lockKey, "1"}, list(n(0), n(-1), "1", "1"), ""},
		{"an empty value", []string{"SET", lockKey, ""}, list(n(0), n(-1), "", "1"), ""},
		{"an owner given up", []string{"SET", markKey, "abandoned"}, list(n(-2), "abandoned"), ""},
		{"a Redisson lock", []string{"HSET", lockKey, "a:1", "1"}, nil, "WRONGTYPE"},
		{"a list", []string{"RPUSH", lockKey, "1"}, nil, "WRONGTYPE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			if err, failed := b.Do(c.setup...).(error); failed {
				t.Fatal(err)
			}
			before := b.Do("DUMP", lockKey)
			got, err := eval(t, b.client, "plain_acquire", threeKeys, "a:1", 20000, 1)
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), c.words) {
					t.Fatalf("got %v and error %v, want an error with %q", got, err, c.words)
				}
			} else if !reflect.DeepEqual(blurTTL(got), c.want) {
				t.Fatalf("got %#v and error %v, want %#v", got, err, c.want)
			}
			if after := b.Do("DUMP", lockKey); !reflect.DeepEqual(before, after) {
				t.Fatalf("the key changed: got %q, want %q", after, before)
			}
			if keys := b.Keys(); slices.Contains(keys, counterKey) {
				t.Fatalf("a refused acquire drew tokens: keys %q", keys)
			}
		})
	}
}

func TestPlainRenewAndRelease(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	lock := threeKeys[:1]
	b.want(n(0), "plain_renew", lock, "a:1", 20000)
	b.want(n(0), "plain_release", lock, "a:1", freeChannel, "PUBLISH")
	if keys := b.Keys(); len(keys) != 0 {
		t.Fatalf("a renewal or release brought back %q", keys)
	}
	b.plainGrant("a:1", 20000, 1)
	b.want(n(1), "plain_renew", lock, "a:1", 60000)
	b.wantTTL(lockKey, 60000)
	b.want(n(1), "plain_renew", lock, "a:1", 20000)
	b.wantTTL(lockKey, 60000)
	b.want(n(0), "plain_renew", lock, "b:1", 90000)
	b.want(n(0), "plain_release", lock, "b:1", freeChannel, "PUBLISH")
	b.wantValue(lockKey, "a:1")
	b.wantTTL(lockKey, 60000)
	b.want(n(2), "plain_release", lock, "a:1", freeChannel, "PUBLISH")
	b.want(n(0), "plain_release", lock, "a:1", freeChannel, "PUBLISH")
	if got, want := heard.Wait(1), []redistest.Message{{Channel: freeChannel, Payload: "0"}}; !slices.Equal(got, want) {
		t.Fatalf("messages: got %v, want %v", got, want)
	}
}

func TestPlainAbandonBreakAndLook(t *testing.T) {
	b := newBench(t)
	keys := threeKeys[:2]
	b.want(n(0), "plain_abandon", keys, "a:1", 20000, freeChannel, "PUBLISH") // overtakes the acquire
	b.want(list(n(-2), "abandoned"), "plain_acquire", threeKeys, "a:1", 20000, 1)
	b.wantTTL(markKey, 20000)
	b.Int("DEL", markKey)
	b.plainGrant("a:1", 20000, 1)
	b.want(n(1), "plain_abandon", keys, "a:1", 20000, freeChannel, "PUBLISH")
	b.want(list(list("free", n(-2), "", n(-1))), "list_plain", threeKeys[:1], 512, "")
	b.want(list(n(0), "", "abandoned", n(1)), "plain_explain", threeKeys)

	b.Int("DEL", markKey)
	b.plainGrant("b:1", 20000, 1)
	b.want(n(0), "plain_abandon", keys, "a:1", 20000, freeChannel, "PUBLISH")
	b.want(list(n(1), "b:1", "abandoned", n(1)), "plain_explain", threeKeys)
	b.want(n(0), "plain_break", keys, "a:1", "ops", 20000, freeChannel, "PUBLISH")
	b.wantValue(lockKey, "b:1")
	b.want(n(1), "plain_break", keys, "b:1", "ops", 20000, freeChannel, "PUBLISH")
	b.want(list(n(0), "", "forced: ops", n(1)), "plain_explain", threeKeys)
	b.wantNothingStays()

	b.String("SET", lockKey, "foreign")
	b.want(list(list("string", n(-1), "foreign", n(-1))), "list_plain", threeKeys[:1], 512, "")
	b.want(list(list("other", n(-1), "", n(-1))), "list_plain", threeKeys[:1], 6, "")
	b.Int("DEL", lockKey)
	b.Int("RPUSH", lockKey, "x")
	b.want(list(n(1), "", "forced: ops", n(1)), "plain_explain", threeKeys)
}

func TestPlainOnAFullServer(t *testing.T) {
	b := newBench(t)
	b.fill()
	if _, err := eval(t, b.client, "plain_acquire", threeKeys, "a:1", 20000, 1); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("acquire: got error %v, want OOM", err)
	}
	if keys := b.Keys(); len(keys) != 0 {
		t.Fatalf("a refused acquire left %q", keys)
	}
	b.want(n(0), "plain_abandon", threeKeys[:2], "a:1", 20000, freeChannel, "PUBLISH")
	b.wantProbePasses(threeKeys, "plain_acquire", "plain_abandon")
	b.String("CONFIG", "SET", "maxmemory", "0")
	b.Int("DEL", markKey)
	b.plainGrant("a:1", 20000, 1)
	b.fill()
	b.plainGrant("a:1", 40000, 1)
	b.want(n(1), "plain_renew", threeKeys[:1], "a:1", 60000)
	b.wantTTL(lockKey, 60000)
	b.want(n(1), "plain_release", threeKeys[:1], "a:1", freeChannel, "PUBLISH")
}

// script is a call of a script with what it takes.
type script struct {
	name string
	keys []string
	args []any
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
