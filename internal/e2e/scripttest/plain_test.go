package scripttest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
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
	_, b := startStore(t, &redishold.Options{Layout: redishold.Plain})
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return newExclusive(b) }, TTL: time.Second}.Run(t)
}

// Who polls waits for a lock of any kind, and never listens. All else is as without
// Options.Poll.
func TestPollNeedsNoSubscription(t *testing.T) {
	server, b := startStore(t, &redishold.Options{Poll: 20 * time.Millisecond})
	for _, kind := range []string{"mutex", "fair", "write", "permit"} {
		takeTurns(t, b, kindClaim(kind, kind, "1"), kindClaim(kind, kind, "2"))
	}
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
	mustRelease(t, b, c)
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

func TestSharedTokensRiseOverGoAndJava(t *testing.T) {
	server, b := startStore(t, &redishold.Options{SharedTokens: true})
	for _, kind := range []string{"mutex", "fair", "write", "read", "permit"} {
		t.Run(kind, func(t *testing.T) {
			counter := "redisson_lock_token:{" + kind + "}"
			var last uint64
			for i := range 4 {
				c := kindClaim(kind, kind, fmt.Sprint(i+1))
				o := mustTry(t, b, c)
				if !o.Granted || o.Token <= last {
					t.Fatalf("got %+v, want a token of more than %d", o, last)
				}
				again := mustTry(t, b, c)
				if again.Token < o.Token {
					t.Fatalf("a repeated Try: got token %d after %d", again.Token, o.Token)
				}
				mustRelease(t, b, c)
				last = uint64(server.Int("INCR", counter)) // what RFencedLock does
				if last != again.Token+1 {
					t.Fatalf("Java's token: got %d, want the one after %d", last, again.Token)
				}
				if i%2 == 1 { // a counter that is ahead of the clock, as after a clock that was set back
					last = uint64(server.Int("INCRBY", counter, "3600000000"))
				}
			}
		})
	}
}
