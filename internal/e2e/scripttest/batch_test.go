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

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// The scripts of several locks, and redishold with them, on a real server.

// states are what a lock can be like before a script runs.
var states = []struct {
	name  string
	setup func(b *bench, k keySet)
}{
	{"free", func(*bench, keySet) {}},
	{"own", func(b *bench, k keySet) { b.run("acquire", k.acquire(), "a:1", 20000, 1, 1) }},
	{"own twice", func(b *bench, k keySet) { b.run("acquire", k.acquire(), "a:1", 90000, 2, 1) }},
	{"own without TTL", func(b *bench, k keySet) {
		b.run("acquire", k.acquire(), "a:1", 20000, 1, 1)
		b.Int("PERSIST", k.lock)
	}},
	{"another's", func(b *bench, k keySet) { b.run("acquire", k.acquire(), "b:1", 20000, 3, 1) }},
	{"given up", func(b *bench, k keySet) { b.run("abandon", k.acquire()[:2], "a:1", 20000, k.channel, "PUBLISH") }},
	{"read-write", func(b *bench, k keySet) { b.Int("HSET", k.lock, "mode", "write", "b:1:write", "1") }},
	{"large", func(b *bench, k keySet) { b.Int("HSET", k.lock, "1", "1", "2", "2", "3", "3", "4", "4", "5", "5") }},
	{"text", func(b *bench, k keySet) { b.String("SET", k.lock, "text") }},
	{"broken counter", func(b *bench, k keySet) { b.String("SET", k.counter, "x") }},
	{"counter ahead", func(b *bench, k keySet) { b.String("SET", k.counter, "8000000000000000") }},
	{"counter of another type", func(b *bench, k keySet) { b.Int("RPUSH", k.counter, "x") }},
	{"mark of another type", func(b *bench, k keySet) { b.Int("RPUSH", k.mark, "x") }},
}

// keySet is what belongs to one lock.
type keySet struct{ lock, mark, counter, channel string }

func keysOf(name string) keySet {
	return keySet{name, "holdfast:gone:{" + name + "}:a:1", "holdfast:token:{" + name + "}", "redisson_lock__channel:{" + name + "}"}
}

func (k keySet) acquire() []string { return []string{k.lock, k.mark, k.counter} }

// dump is what is stored of a lock. TTLs are rounded to ten seconds.
func (b *bench) dump(k keySet) (all []string) {
	for _, key := range k.acquire() {
		ttl := b.Int("PTTL", key)
		if ttl > 0 {
			ttl = (ttl + 5_000) / 10_000
		}
		var value any
		switch kind := b.Do("TYPE", key); kind {
		case "string":
			value = b.Do("GET", key)
			if key == k.counter && len(fmt.Sprint(value)) == 16 {
				value = fmt.Sprint(value)[:3] // tokens of the same day
			}
		case "hash":
			value = b.Map("HGETALL", key)
		default:
			value = kind
		}
		all = append(all, fmt.Sprint(value, " for ", ttl))
	}
	return all
}

// common makes replies comparable: tokens are of the same day, what is left of a
// lease is about the same, and an error is its code.
func common(reply any, err error) any {
	list, _ := reply.([]any)
	switch token, ok := reply.(int64); {
	case err != nil:
		return code(err.Error())
	case ok && token > 1e15:
		return fmt.Sprint(token)[:3]
	case len(list) == 2 && list[0] == n(-3):
		return code(list[1].(string))
	case len(list) == 4:
		list[1] = (list[1].(int64) + 5_000) / 10_000
	}
	return reply
}

// code is the first word of an error, and what it says of a counter. Redis 6.2 puts
// the server's error behind words of its own.
func code(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if word == "ERR" && strings.Contains(text, "WRONGTYPE ") {
		word = "WRONGTYPE"
	}
	if strings.Contains(text, "is no number") {
		word += " is no number"
	}
	return "error " + word
}

// Each lock gets the answer that it would get alone, and is left as it would be.
func TestSeveralAsAlone(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		script string
		alone  func(k keySet) (keys []string, args []any)
		all    func(ks []keySet) (keys []string, args []any)
	}{
		{"acquire", func(k keySet) ([]string, []any) {
			return k.acquire(), []any{"a:1", 30000, 1, 5}
		}, func(ks []keySet) (keys []string, args []any) {
			for _, k := range ks {
				keys, args = append(keys, k.acquire()...), append(args, "a:1")
			}
			return keys, append(args, 30000, 1, 5)
		}},
		{"renew", func(k keySet) ([]string, []any) {
			return []string{k.lock}, []any{"a:1", 30000, 1}
		}, func(ks []keySet) (keys []string, args []any) {
			for _, k := range ks {
				keys, args = append(keys, k.lock), append(args, "a:1")
			}
			return keys, append(args, 30000, 1)
		}},
		{"release", func(k keySet) ([]string, []any) {
			return []string{k.lock}, append([]any{"a:1", k.channel}, publishing(t)...)
		}, func(ks []keySet) (keys []string, args []any) {
			for _, k := range ks {
				keys, args = append(keys, k.lock), append(args, "a:1", k.channel)
			}
			return keys, append(args, publishing(t)...)
		}},
	} {
		b.String("FLUSHALL")
		var alone, several []keySet
		var wants []any
		for _, s := range states {
			one, of := keysOf("alone "+s.name), keysOf("several "+s.name)
			s.setup(b, one)
			s.setup(b, of)
			keys, args := c.alone(one)
			reply, err := eval(t, b.client, c.script, keys, args...)
			alone, several, wants = append(alone, one), append(several, of), append(wants, common(reply, err))
		}
		keys, args := c.all(several)
		got := b.run(c.script+"_all", keys, args...).([]any)
		if len(got) != len(states) {
			t.Fatalf("%s: got %d answers for %d locks", c.script, len(got), len(states))
		}
		for i, s := range states {
			if got := common(got[i], nil); !reflect.DeepEqual(got, wants[i]) {
				t.Errorf("%s, %s: got %v, want as alone %v", c.script, s.name, got, wants[i])
			}
			if got, want := b.dump(several[i]), b.dump(alone[i]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: left %q, want as alone %q", c.script, s.name, got, want)
			}
		}
	}
}

// A token is the first of the block that the counter has moved on by.
func TestSeveralOfSeveralCounters(t *testing.T) {
	b := newBench(t)
	x, y, z := keysOf("x"), keysOf("y"), keysOf("z")
	b.String("SET", y.counter, "8000000000000000")
	keys := append(append(x.acquire(), y.acquire()...), z.acquire()...)
	got := b.run("acquire_all", keys, "a:1", "a:1", "a:1", 30000, 1, 5).([]any)
	for i, k := range []keySet{x, y, z} {
		if last := b.Do("GET", k.counter); last != any(fmt.Sprint(b.token(got[i])+4)) {
			t.Errorf("%s: the counter is %v after token %v and four more", k.lock, last, got[i])
		}
	}
}

// If the replies for all locks are the same number, that number is the reply.
func TestSeveralAlike(t *testing.T) {
	b := newBench(t)
	all := []keySet{keysOf("x"), keysOf("y"), keysOf("z")}
	var acquire, locks []string
	var owners, release []any
	for _, k := range all {
		acquire, locks = append(acquire, k.acquire()...), append(locks, k.lock)
		owners, release = append(owners, "a:1"), append(release, "a:1", k.channel)
	}
	token := b.token(b.run("acquire_all", acquire, append(owners, 30000, 1, 5)...))
	for _, k := range all {
		if last := b.Do("GET", k.counter); last != any(fmt.Sprint(token+4)) {
			t.Errorf("%s: the counter is %v after token %d and four more", k.lock, last, token)
		}
	}
	renew := append(slices.Clip(owners), 40000, 1)
	b.want(n(1), "renew_all", locks, renew...)
	b.want(n(1), "release_all", locks, append(release, "PUBLISH")...)
	b.want(n(0), "release_all", locks, append(release, "PUBLISH")...)
	b.want(n(0), "renew_all", locks, renew...)
}

// A waiter for one of the locks learns of its release, on either kind of channel.
func TestSeveralReleasesAreHeard(t *testing.T) {
	redistest.Needs(t, redistest.ShardedChannels)
	b := newBench(t)
	x, y, z := keysOf("x"), keysOf("y"), keysOf("z")
	classic, sharded, another := b.Listen("*"), b.ListenSharded(y.channel), b.ListenSharded(y.channel)
	for _, k := range []keySet{x, z} {
		b.run("acquire", k.acquire(), "a:1", 20000, 1, 1)
	}
	b.run("acquire", y.acquire(), "b:1", 20000, 1, 1)
	args := []any{"a:1", x.channel, "b:1", y.channel, "c:1", z.channel, "PUBLISH", "SPUBLISH"}
	b.want(list(n(2), n(3), n(0)), "release_all", []string{x.lock, y.lock, z.lock}, args...)
	want := []redistest.Message{{Channel: x.channel, Payload: "00"}, {Channel: y.channel, Payload: "00"}}
	if got := classic.Wait(2); !slices.Equal(got, want) {
		t.Errorf("classic: got %v, want %v", got, want)
	}
	want = []redistest.Message{{Channel: y.channel, Payload: "0"}}
	for _, l := range []*redistest.Listener{sharded, another} {
		if got := l.Wait(1); !slices.Equal(got, want) {
			t.Errorf("sharded: got %v, want %v", got, want)
		}
	}
}

// The second of the same name finds what the first did.
func TestSeveralOfOneName(t *testing.T) {
	b := newBench(t)
	k := keysOf("stock:42")
	two := append(k.acquire(), k.lock, k.mark+"2", k.counter)
	got := b.run("acquire_all", two, "a:1", "a:2", 30000, 1, 1).([]any)
	if token, ok := got[0].(int64); !ok || token < 1e15 {
		t.Errorf("first: got %v, want a grant", got[0])
	}
	if busy, ok := got[1].([]any); !ok || len(busy) != 4 || busy[2] != "a:1" {
		t.Errorf("second: got %v, want that a:1 has it", got[1])
	}
	b.wantHash(map[string]string{"a:1": "1"})
	b.want(list(n(1), n(0)), "release_all", []string{k.lock, k.lock}, "a:1", k.channel, "a:1", k.channel, "PUBLISH")
}

// Where locks share a counter, each gets tokens of its own.
func TestSeveralOfOneCounter(t *testing.T) {
	b := newBench(t)
	keys := []string{"x", "x:mark", counterKey, "y", "y:mark", counterKey, "z", "z:mark", counterKey}
	got := b.run("acquire_all", keys, "a:1", "a:2", "a:3", 30000, 1, 64).([]any)
	for i := 1; i < len(got); i++ {
		if before, token := got[i-1].(int64), got[i].(int64); token < before+64 {
			t.Errorf("token %d after a block of 64 from %d", token, before)
		}
	}
	if last := b.Do("GET", counterKey); last != any(fmt.Sprint(got[2].(int64)+63)) {
		t.Errorf("counter: got %v, want the last token of the last block, from %v", last, got[2])
	}
}

// On a full server nothing is granted by halves, and what is held goes on.
func TestSeveralOnAFullServer(t *testing.T) {
	b := newBench(t)
	own, free, other := keysOf("own"), keysOf("free"), keysOf("other")
	b.run("acquire", own.acquire(), "a:1", 20000, 1, 1)
	b.fill()
	keys := append(append(free.acquire(), own.acquire()...), other.acquire()...)
	got := b.run("acquire_all", keys, "a:1", "a:1", "a:1", 40000, 1, 1).([]any)
	if refused, ok := got[0].([]any); !ok || refused[0] != n(-3) || !strings.Contains(refused[1].(string), "OOM command not allowed") {
		t.Errorf("a free lock: got %v, want OOM", got[0])
	}
	if b.Int("EXISTS", free.lock, free.mark, free.counter) != 0 {
		t.Error("a refused acquire left something")
	}
	b.token(got[1])
	b.wantTTL(own.lock, 40000)
	// Redis lets a script go on that has written something.
	b.token(got[2])
	b.wantTTL(other.lock, 40000)
	b.want(list(n(1), n(0)), "renew_all", []string{own.lock, free.lock}, "a:1", "a:1", 60000, 2)
	b.wantTTL(own.lock, 60000)
	b.want(list(n(0), n(1)), "release_all", []string{free.lock, own.lock}, "a:1", free.channel, "a:1", own.channel, "PUBLISH")
}

// A call for many locks takes few commands.
func TestSeveralTakeFewCommands(t *testing.T) {
	b := newBench(t)
	backend := redishold.New(connect(t, b.Addr(), "", ""), nil)
	cs := manyClaims("stock", 100)
	tryAndRelease(t, backend, cs)
	before := b.CommandStats()
	tryAndRelease(t, backend, cs)
	var total, calls int64
	for command, n := range b.CommandStats() {
		n -= before[command]
		switch command {
		case "eval", "evalsha":
			calls += n
		case "info", "commandstats":
		default:
			total += n
		}
	}
	if total > 6*100+10 || calls > 6 {
		t.Errorf("100 locks taken and released: %d calls and %d commands in them, want at most 6 and 610", calls, total)
	}
}

func manyClaims(name string, n int) []driver.Claim {
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = claim(fmt.Sprintf("%s:%d", name, i), fmt.Sprint(i+1))
	}
	return cs
}

func tryAndRelease(t *testing.T, b *redishold.Backend, cs []driver.Claim) {
	t.Helper()
	for i, a := range b.TryAll(bounded(t), cs) {
		if a.Err != nil || !a.Outcome.Granted {
			t.Fatalf("TryAll, %s: got %+v, want a grant", cs[i].Name, a)
		}
	}
	for i, err := range b.ReleaseAll(bounded(t), cs) {
		if err != nil {
			t.Fatalf("ReleaseAll, %s: got error %v", cs[i].Name, err)
		}
	}
}

// A thousand names, whose scripts the server forgets in between.
func TestBatchesOfAThousand(t *testing.T) {
	server, b := startStore(t, nil)
	cs := manyClaims("stock", 1000)
	for range 2 {
		tryAndRelease(t, b, cs)
		server.String("SCRIPT", "FLUSH")
	}
	b.TryAll(bounded(t), cs)
	server.String("SCRIPT", "FLUSH")
	renewals, err := b.Renew(bounded(t), cs)
	for _, r := range renewals {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs { // one by one they are the same locks
		mustRelease(t, b, c)
	}
	if stay := server.Bind(t).KeysWithoutTTL(func(key string) bool { return strings.HasPrefix(key, "holdfast:token:") }); len(stay) > 0 {
		t.Errorf("keys without TTL: %q", stay)
	}
}

// Who may use some of the names gets those.
func TestBatchWithoutRightsToSomeNames(t *testing.T) {
	server := redistest.Start(t)
	server.String("ACL", "SETUSER", "some", "reset", "on", ">secret", "~stock:*", "~holdfast:*", "&*", "+@all")
	b := redishold.New(connect(t, server.Addr(), "some", "secret"), nil)
	cs := []driver.Claim{claim("stock:1", "1"), claim("other", "2"), claim("stock:2", "3")}
	for i, a := range b.TryAll(bounded(t), cs) {
		if mine := i != 1; a.Outcome.Granted != mine {
			t.Errorf("TryAll, %s: got %+v, want granted: %v", cs[i].Name, a, mine)
		} else if !mine && (!errors.Is(a.Err, driver.ErrRefused) || !errors.Is(a.Err, driver.ErrNotExecuted)) {
			t.Errorf("TryAll, %s: got error %v, want ErrRefused and ErrNotExecuted", cs[i].Name, a.Err)
		}
	}
	renewals, err := b.Renew(bounded(t), cs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range renewals {
		if failed := r.Err != nil; failed != (i == 1) || errors.Is(r.Err, driver.ErrGone) {
			t.Errorf("Renew, %s: got %+v", cs[i].Name, r)
		}
	}
	for i, err := range b.ReleaseAll(bounded(t), cs) {
		if failed := err != nil; failed != (i == 1) || errors.Is(err, driver.ErrGone) {
			t.Errorf("ReleaseAll, %s: got error %v", cs[i].Name, err)
		}
	}
	server.String("ACL", "SETUSER", "some", "resetchannels")
	tryAndRelease(t, b, []driver.Claim{cs[0], cs[2]}) // nobody learns of it
}

// Unlocking what is gone says why, also among others.
func TestReleaseAllSaysWhy(t *testing.T) {
	server, b := startStore(t, nil)
	cs := manyClaims("stock", 3)
	b.TryAll(bounded(t), cs)
	server.Int("DEL", cs[1].Name)
	next := claim(cs[1].Name, "9")
	next.Client, next.Note = strings.Replace(next.Client, "7", "8", 1), "somebody@else:1"
	next.Owner = next.Client + ":9"
	mustGrant(t, b, next)
	errs := b.ReleaseAll(bounded(t), cs)
	var gone *driver.GoneError
	if errs[0] != nil || errs[2] != nil || !errors.As(errs[1], &gone) || gone.Reason != driver.ReasonNotOwner {
		t.Errorf("got %v, want that the second is held by somebody else", errs)
	}
}

// Longer is worth knowing: while a script of several locks runs, the server serves
// nobody else.
func TestSeveralAreSoonDone(t *testing.T) {
	server, b := startStore(t, nil)
	cs := manyClaims("stock", 500)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b.TryAll(ctx, cs)
	server.String("CONFIG", "SET", "slowlog-log-slower-than", "20000")
	for range 5 {
		if _, err := b.Renew(ctx, cs); err != nil {
			t.Fatal(err)
		}
		b.ReleaseAll(ctx, cs)
		b.TryAll(ctx, cs)
	}
	// A call may have been left without a processor; more are slow themselves.
	if slow := server.Int("SLOWLOG", "LEN"); slow > 4 { // of five rounds
		t.Errorf("%d calls took longer than 20 ms", slow)
	}
}
