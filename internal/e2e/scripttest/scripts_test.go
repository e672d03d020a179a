package scripttest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// The scripts of package redishold, each by itself on a real server.

const (
	lockKey    = "stock:42"
	markKey    = "holdfast:gone:{stock:42}:a:1"
	counterKey = "holdfast:token:{7}"
	channel    = "redisson_lock__channel:{stock:42}"
)

var threeKeys = []string{lockKey, markKey, counterKey}

// bench is a server and a client that runs scripts on it.
type bench struct {
	*redistest.Server
	t      *testing.T
	client *redis.Client
}

func newBench(t *testing.T, opts ...redistest.Option) *bench {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	b := &bench{Server: redistest.Start(t, opts...), t: t}
	b.client = b.login("", "")
	return b
}

// login returns a client of another user.
func (b *bench) login(user, password string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: b.Addr(), Username: user, Password: password, Protocol: 2, MaxRetries: -1, DisableIdentity: true, PoolSize: 1,
	})
	b.t.Cleanup(func() { _ = client.Close() })
	return client
}

func eval(t testing.TB, client *redis.Client, script string, keys []string, args ...any) (any, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return client.Eval(ctx, redistest.ScriptSource(t, script), keys, args...).Result()
}

// run runs a script that must succeed. If the reply names the readers of a read-write lock, run
// also makes the second call, as the library does.
func (b *bench) run(script string, keys []string, args ...any) any {
	b.t.Helper()
	got, err := eval(b.t, b.client, script, keys, args...)
	if err != nil {
		b.t.Fatalf("%s: got error %v", script, err)
	}
	return b.secondCall(got, script, keys, args)
}

// want runs a script whose whole reply is known.
func (b *bench) want(want any, script string, keys []string, args ...any) {
	b.t.Helper()
	if got := b.run(script, keys, args...); !reflect.DeepEqual(got, want) {
		b.t.Fatalf("%s: got %#v, want %#v", script, got, want)
	}
}

// grant runs acquire, which must grant, and returns the token.
func (b *bench) grant(owner string, ttl, holds, tokens int) int64 {
	b.t.Helper()
	return b.token(b.run("acquire", threeKeys, owner, ttl, holds, tokens))
}

func (b *bench) wantHash(want map[string]string) {
	b.t.Helper()
	if got := b.Map("HGETALL", lockKey); !maps.Equal(got, want) {
		b.t.Fatalf("HGETALL: got %v, want %v", got, want)
	}
}

// wantTTL checks that key lives for at most limit, and hardly less.
func (b *bench) wantTTL(key string, limit int64) {
	b.t.Helper()
	if got := b.Int("PTTL", key); got > limit || got < limit-5000 {
		b.t.Fatalf("PTTL %s: got %d, want about %d", key, got, limit)
	}
}

func (b *bench) wantNothingStays() {
	b.t.Helper()
	if stay := b.KeysWithoutTTL(isCounter); len(stay) > 0 {
		b.t.Fatalf("keys without TTL: %q", stay)
	}
}

func isCounter(key string) bool { return key == counterKey }

func list(values ...any) any { return values }

// publishing returns the commands that wake waiters on this server, as arguments of
// scripts.
func publishing(t testing.TB) []any {
	if redistest.Has(t, redistest.ShardedChannels) {
		return []any{"PUBLISH", "SPUBLISH"}
	}
	return []any{"PUBLISH"}
}

func n(i int64) any { return i }

func TestAcquireGrants(t *testing.T) {
	b := newBench(t)
	first := b.grant("a:1", 20000, 1, 3)
	b.wantHash(map[string]string{"a:1": "1"})
	b.wantTTL(lockKey, 20000)
	if now := time.Now().UnixMicro(); first > now || first < now-int64(time.Minute/time.Microsecond) {
		t.Fatalf("first token: got %d, want the server's clock in µs, about %d", first, now)
	}
	if got := b.Int("INCRBY", counterKey, "0"); got != first+2 {
		t.Fatalf("counter: got %d, want the last token of the block, %d", got, first+2)
	}
	b.wantNothingStays()
}

func TestAcquireTokensSurviveALostOrHigherCounter(t *testing.T) {
	b := newBench(t)
	first := b.grant("a:1", 20000, 1, 1)
	b.Int("DEL", lockKey, counterKey)
	second := b.grant("b:1", 20000, 1, 1)
	if second <= first {
		t.Fatalf("token after a lost counter: got %d, want more than %d", second, first)
	}
	b.Int("DEL", lockKey)
	b.String("SET", counterKey, "8000000000000000")
	if got := b.grant("c:1", 20000, 1, 1); got != 8000000000000001 {
		t.Fatalf("token after a higher counter: got %d, want 8000000000000001", got)
	}
	b.Int("DEL", lockKey)
	b.String("SET", counterKey, "9007199254740991")
	if got, err := eval(t, b.client, "acquire", threeKeys, "d:1", 20000, 1, 1); err == nil {
		t.Fatalf("token beyond 2^53: got %v, want an error", got)
	}
	b.wantHash(map[string]string{})
}

// A counter that was overwritten may have been ahead of the clock.
func TestAcquireLeavesABrokenCounter(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"x", "", "nan", "inf", "-nan", "9007199254740991", "1e300"} {
		b.String("SET", counterKey, text)
		got, err := eval(t, b.client, "acquire", threeKeys, "a:1", 20000, 1, 1)
		if err == nil || !strings.Contains(err.Error(), "token counter "+counterKey) {
			t.Errorf("counter %q: got %v and error %v, want an error that names it", text, got, err)
		}
		if stays := b.Do("GET", counterKey); stays != any(text) {
			t.Errorf("counter %q: is now %v", text, stays)
		}
		b.wantHash(map[string]string{})
	}
	for _, text := range []string{"-5", "-inf", "007", "12.5", "0x10"} { // behind the clock, however written
		b.String("SET", counterKey, text)
		first := b.grant("a:1", 20000, 1, 3)
		if got := b.Do("GET", counterKey); got != any(fmt.Sprint(first+2)) {
			t.Errorf("counter %q: is now %v after token %d and two more", text, got, first)
		}
		b.Int("DEL", lockKey)
	}
	b.String("SET", counterKey, "4000000000000000.5") // ahead of the clock, with a fraction
	if got := b.grant("a:1", 20000, 1, 3); got != 4000000000000001 || b.Do("GET", counterKey) != any("4000000000000003") {
		t.Errorf("after a fraction: got token %d and counter %v, want 4000000000000001 and two more", got, b.Do("GET", counterKey))
	}
}

// A block of tokens goes on from the one before it, also where that is ahead of
// the clock, and is written in all its digits.
func TestAcquireTokensInBlocks(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ before, first, tokens, after int64 }{
		{2000000000000000, 2000000000000001, 1, 2000000000000001},
		{3000000000000000, 3000000000000001, 1000000, 3000000001000000},
		{2999999999999999, 3000000000000000, 1, 3000000000000000}, // no exponent
		{9007199254740989, 9007199254740990, 1, 9007199254740990},
	} {
		b.String("SET", counterKey, fmt.Sprint(c.before))
		if got := b.grant("a:1", 20000, 1, int(c.tokens)); got != c.first || b.Do("GET", counterKey) != any(fmt.Sprint(c.after)) {
			t.Errorf("%d tokens after %d: got %d and counter %v, want %d and %d", c.tokens, c.before, got, b.Do("GET", counterKey), c.first, c.after)
		}
		b.Int("DEL", lockKey)
	}
}

// blurTTL replaces the TTL of a busy reply, if there is one, by a word.
func blurTTL(reply any) any {
	if l, ok := reply.([]any); ok && len(l) == 4 {
		if ttl, ok := l[1].(int64); ok && ttl > 15000 && ttl <= 20000 {
			l[1] = "ttl"
		}
	}
	return reply
}

func TestReleasePublishesBothWays(t *testing.T) {
	redistest.Needs(t, redistest.ShardedChannels)
	b := newBench(t)
	classic, sharded, another := b.Listen("*"), b.ListenSharded(channel), b.ListenSharded(channel)
	b.grant("a:1", 20000, 1, 1)
	b.want(n(3), "release", []string{lockKey}, "a:1", channel, "PUBLISH", "SPUBLISH")
	if got, want := classic.Wait(1), []redistest.Message{{Channel: channel, Payload: "00"}}; !slices.Equal(got, want) {
		t.Fatalf("classic: got %v, want %v", got, want)
	}
	for _, l := range []*redistest.Listener{sharded, another} {
		if got, want := l.Wait(1), []redistest.Message{{Channel: channel, Payload: "0"}}; !slices.Equal(got, want) {
			t.Fatalf("sharded: got %v, want %v", got, want)
		}
	}
}

// A quiet release, and a quiet grant to a process that listens, publish nothing. Wake publishes
// what a release does.
func TestQuietRelease(t *testing.T) {
	server, store := startStore(t, nil)
	listener := server.Bind(t).Listen(channel)
	c := claim(lockKey, "1")
	if out, err := store.Try(t.Context(), c); err != nil || !out.Granted {
		t.Fatalf("got %+v and error %v", out, err)
	}
	c.Quiet = true
	if others, err := store.StartRelease(t.Context(), c)(); err != nil || others != -1 {
		t.Errorf("got %d others and error %v, want -1 without an error", others, err)
	}
	if n := server.Bind(t).Int("EXISTS", lockKey); n != 0 {
		t.Error("the lock is still held")
	}
	if err := store.Wake(t.Context(), c); err != nil {
		t.Error(err)
	}
	server.Bind(t).Int("PUBLISH", channel, "last") // messages come in order: so one of the release would be before it
	want := []redistest.Message{{Channel: channel, Payload: "0"}, {Channel: channel, Payload: "last"}}
	if got := listener.Wait(2); !slices.Equal(got, want) {
		t.Errorf("got %v, want only the message of Wake before the last one: %v", got, want)
	}
}

func TestExplain(t *testing.T) {
	b := newBench(t)
	b.want(list(n(0), "", "", n(0)), "explain", threeKeys)
	b.Int("HSET", lockKey, "x:9", "2")
	b.want(list(n(1), "x:9", "", n(0)), "explain", threeKeys)
	b.String("SET", lockKey, "text")
	b.want(list(n(1), "", "", n(0)), "explain", threeKeys)
	b.String("FLUSHALL")
	b.String("SET", markKey, "forced: ops")
	b.String("SET", counterKey, "7")
	b.want(list(n(0), "", "forced: ops", n(1)), "explain", threeKeys)
}

func TestRegistration(t *testing.T) {
	b := newBench(t)
	key := []string{"holdfast:client:a"}
	said := func(want string) {
		t.Helper()
		reply, err := eval(t, b.client, "client", key)
		if now, ok := reply.([]any); err != nil || !ok || len(now) != 2 || now[0] != want {
			t.Fatalf("client: got %v and error %v, want %q and the server's time", reply, err, want)
		}
	}
	said("")
	b.want(n(1), "register", key, `{"note":"ci@host:1"}`, 90000)
	said(`{"note":"ci@host:1"}`)
	b.wantTTL(key[0], 90000)
}

// fill makes a server refuse every write that needs memory.
func (b *bench) fill() {
	b.t.Helper()
	b.String("CONFIG", "SET", "maxmemory", "1")
	if err, ok := b.Do("SET", "one", "more").(error); !ok || !strings.HasPrefix(err.Error(), "OOM") {
		b.t.Fatalf("SET on a full server: got %v, want OOM", err)
	}
}

// commandsOf returns the Redis commands that a script can call.
func commandsOf(t testing.TB, script string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:call|try)\('([A-Z]+)'`).FindAllStringSubmatch(redistest.ScriptSource(t, script), -1) {
		found[m[1]] = true
	}
	if strings.Contains(redistest.ScriptSource(t, script), "ARGV[i], channel") {
		found["PUBLISH"] = true
	}
	return slices.Sorted(maps.Keys(found))
}
