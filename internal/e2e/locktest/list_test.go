package locktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

const javaClient = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11"

// list returns what a List shows, by name.
func list(t testing.TB, c *admin.Console, o admin.Filter) map[string]admin.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	found := map[string]admin.Record{}
	for r, err := range c.List(ctx, o) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if _, twice := found[r.Name]; twice {
			t.Errorf("%q is listed twice", r.Name)
		}
		found[r.Name] = r
	}
	return found
}

func lookAt(t testing.TB, c *admin.Console, name string) admin.Record {
	t.Helper()
	records, err := c.Get(t.Context(), name)
	if err != nil {
		t.Fatalf("Get(%q): %v", name, err)
	}
	return records[0]
}

func wantKinds(t testing.TB, found map[string]admin.Record, want map[string]admin.Kind) {
	t.Helper()
	got := map[string]admin.Kind{}
	for name, r := range found {
		got[name] = r.Kind
	}
	if !maps.Equal(got, want) {
		t.Errorf("listed: got %v, want %v", got, want)
	}
}

// Every kind of lock that Go holds is listed as what it is, by its name, with who
// has it, and no key beside it is.
func TestListHeldByGo(t *testing.T) {
	for _, prefix := range []string{"", "app:", "{app}:"} {
		t.Run(prefix, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				l := s.drained(holdfast.New(redishold.New(s.conn(s.server.Addr()), &redishold.Options{KeyPrefix: prefix}), &holdfast.Options{Note: "nightly", TTL: 20 * time.Second}))
				other := holdfast.New(redishold.New(s.conn(s.server.Addr()), &redishold.Options{KeyPrefix: prefix}), &holdfast.Options{Note: "nightly"})
				c := s.console(&redishold.Options{KeyPrefix: prefix})
				s.holdAllKinds(c, l, s.drained(other))
				found := list(s, c, admin.Filter{})
				wantKinds(s, found, map[string]admin.Kind{
					"mutex": admin.KindMutex, "{t}:mutex": admin.KindMutex, "fair": admin.KindFair,
					"readers": admin.KindReadWrite, "writer": admin.KindReadWrite, "permits": admin.KindSemaphore,
				})
				s.checkAllKinds(found)
				if got := list(s, c, admin.Filter{NamePrefix: "per", Counters: true}); len(got) != 1 {
					s.Errorf("with a prefix: got %v, want the permits alone", slices.Collect(maps.Keys(got)))
				}
				wantKinds(s, list(s, c, admin.Filter{NamePrefix: "lat", Counters: true}), map[string]admin.Kind{"latch": admin.KindCounter})
				s.server.Do("FLUSHALL") // semaphores and latches have no TTL
			})
		})
	}
}

// holdAllKinds holds a lock of each kind until the test ends, for some of which
// another client waits.
func (s *subject) holdAllKinds(c *admin.Console, l, other *holdfast.Locker) {
	s.Helper()
	hold := func(k *holdfast.Lock, err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = k.Unlock() })
	}
	ctx := s.Context()
	hold(l.Lock(ctx, "mutex"))
	hold(l.Lock(ctx, "{t}:mutex"))
	hold(l.FairMutex("fair").Lock(ctx))
	for range 2 {
		hold(l.RWMutex("readers").Read.Lock(ctx))
	}
	hold(l.RWMutex("writer").Write.Lock(ctx))
	for range 2 {
		hold(l.Semaphore("permits", 5).Acquire(ctx))
	}
	if _, err := l.CountDownLatch("latch").TrySet(ctx, 3); err != nil {
		s.Fatal(err)
	}
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, 3)
	for _, m := range []*holdfast.Mutex{other.FairMutex("fair"), other.FairMutex("fair"), other.Mutex("mutex")} {
		go func() {
			defer func() { done <- struct{}{} }()
			if _, err := m.Lock(waiting); !errors.Is(err, context.Canceled) {
				s.Errorf("a waiter: got %v, want its context's error", err)
			}
		}()
	}
	s.Cleanup(func() {
		cancel()
		for range 3 {
			<-done
		}
	})
	if !await.Eventually(5*time.Second, func() bool {
		fair := lookAt(s, c, "fair")
		registered := fair.Waiting == 2 && fair.Waiters[0].Note == "nightly"
		return registered && lookAt(s, c, "mutex").Listeners == 1
	}) {
		s.Errorf("nobody is seen to wait: %+v %+v", lookAt(s, c, "fair"), lookAt(s, c, "mutex"))
	}
}

func (s *subject) checkAllKinds(found map[string]admin.Record) {
	s.Helper()
	modes := map[string]driver.Mode{"readers": driver.Shared, "permits": driver.Permit}
	held := map[string]int{"readers": 2, "permits": 2}
	for name, r := range found {
		if r.Holders != max(1, held[name]) || len(r.Holds) != r.Holders {
			s.Errorf("%s: got %d holds, %d shown, want %d", name, r.Holders, len(r.Holds), max(1, held[name]))
		}
		for _, h := range r.Holds {
			if h.Mode != modes[name] || h.Holds != 1 || h.Remaining < 10*time.Second || h.Remaining > 21*time.Second {
				s.Errorf("%s: got hold %+v", name, h)
			}
			if h.Note != "nightly" || h.Client.Library != "holdfast" || h.Client.PID == 0 || h.Client.Started.IsZero() {
				s.Errorf("%s: got client %+v of %q", name, h.Client, h.Note)
			}
		}
	}
	if r := found["fair"]; r.Waiting != 2 || len(r.Waiters) != 2 || r.Waiters[0].Note != "nightly" || r.Waiters[0].Remaining <= 0 {
		s.Errorf("waiters of the fair lock: got %+v", r.Waiters)
	}
	if r := found["permits"]; r.Permits != 5 || r.Free != 3 {
		s.Errorf("permits: got %d of %d free, want 3 of 5", r.Free, r.Permits)
	}
}

// writeAsJava writes what Redisson leaves in a server for each of its locks, and
// keys of its other objects beside them.
func writeAsJava(a redistest.Admin) {
	owner := func(thread int) string { return javaClient + ":" + strconv.Itoa(thread) }
	later := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	past := strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10)
	for _, c := range [][]string{
		{"HSET", "rlock", owner(42), "3"},
		{"PEXPIRE", "rlock", "30000"},
		{"HSET", "tx", owner(42) + ":" + javaClient, "1"},
		{"PEXPIRE", "tx", "30000"},
		{"HSET", "fenced", owner(7), "1"},
		{"PEXPIRE", "fenced", "30000"},
		{"SET", "redisson_lock_token:{fenced}", "88", "PX", "60000"},
		{"HSET", "rfair", owner(1), "1"},
		{"PEXPIRE", "rfair", "30000"},
		{"RPUSH", "redisson_lock_queue:{rfair}", owner(2), owner(3)},
		{"ZADD", "redisson_lock_timeout:{rfair}", later, owner(2), later, owner(3)},
		{"HSET", "rw", "mode", "read", owner(5), "2", owner(6), "1"},
		{"PEXPIRE", "rw", "30000"},
		{"SET", "{rw}:" + owner(5) + ":rwlock_timeout:1", "1", "PX", "9000"},
		{"SET", "{rw}:" + owner(5) + ":rwlock_timeout:2", "1", "PX", "20000"},
		{"HSET", "both", "mode", "write", owner(8) + ":write", "1", owner(8), "1"},
		{"PEXPIRE", "both", "30000"},
		{"SET", "{both}:" + owner(8) + ":rwlock_timeout:1", "1", "PX", "20000"},
		{"SET", "sem", "2", "PX", "60000"},
		{"ZADD", "{sem}:timeout", later, "0123456789abcdef", "922337203685477", "fedcba9876543210", past, "expiredexpired!!"},
		{"SET", "{br}", "0", "PX", "60000"},
		{"ZADD", "{br}:timeout", later, "0123456789abcdef"},
		{"SET", "rlatch", "3", "PX", "60000"},
		{"SET", "redisson_unlock_latch:{rlock}:9f0c", "1", "PX", "60000"},
		{"HSET", "multi", "AAAAAAAAAAAAAAAAAAAAAA", owner(1), "AAAAAAAAAAAAAAAAAAAAAA:" + owner(1) + ":lock_count", "1"},
		{"PEXPIRE", "multi", "30000"},
		{"HSET", "map", "user-1", "x", "42", "1"}, // RMap
		{"HSET", "visits", "page", "3"},
		{"ZADD", "scores:timeout", "1", "a"},
		{"ZADD", "redisson__timeout__set:{map}", later, "a"},
		{"RPUSH", "list", "x"},
		{"SET", "text", "hello"},
		{"SADD", "set", "x"},
		{"HSET", "looks-like:one", "not-a-uuid-but-36-characters-long-xx:1", "1"},
	} {
		a.Do(c...)
	}
	for _, key := range []string{
		"redisson_lock_queue:{rfair}", "redisson_lock_timeout:{rfair}", "{sem}:timeout", "{br}:timeout", "map", "visits",
		"scores:timeout", "redisson__timeout__set:{map}", "list", "text", "set", "looks-like:one",
	} {
		a.Do("PEXPIRE", key, "60000")
	}
}

// Locks that Java holds are listed as such, and its other data is not.
func TestListHeldByJava(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		writeAsJava(s.server.Admin)
		c := s.console(nil)
		found := list(s, c, admin.Filter{Counters: true})
		wantKinds(s, found, map[string]admin.Kind{
			"rlock": admin.KindMutex, "tx": admin.KindMutex, "fenced": admin.KindMutex, "rfair": admin.KindFair,
			"rw": admin.KindReadWrite, "both": admin.KindReadWrite, "sem": admin.KindSemaphore, "{br}": admin.KindSemaphore,
			"rlatch": admin.KindCounter, "multi": admin.KindMulti,
		})
		if h := found["rlock"].Holds[0]; h.Holds != 3 || h.Client.Library != "redisson" || h.Client.ID != javaClient || h.Note != "Redisson client 71b96ce8… thread 42" {
			s.Errorf("rlock: got %+v", h)
		}
		if w := found["rfair"].Waiters; len(w) != 2 || w[0].Owner != javaClient+":2" || w[0].Remaining < 50*time.Second || w[1].Client.Library != "redisson" {
			s.Errorf("rfair: got waiters %+v", w)
		}
		if r := found["rw"]; r.Holders != 1 || r.Holds[0].Owner != javaClient+":5" || r.Holds[0].Holds != 2 || r.Holds[0].Remaining < 15*time.Second {
			s.Errorf("rw: got %+v, want one reader: the other has died", r)
		}
		if r := found["both"]; r.Holders != 2 || r.Holds[0].Mode == r.Holds[1].Mode {
			s.Errorf("both: got %+v", r)
		}
		if r := found["sem"]; r.Holders != 2 || r.Free != 3 || r.Permits != 5 || len(r.Holds) != 2 || r.Holds[0].Owner != fmt.Sprintf("%x", "0123456789abcdef") || r.Holds[1].Remaining >= 0 || r.Holds[0].Note != "a permit" || r.Holds[0].Client != (admin.Client{}) {
			s.Errorf("sem: got %+v", r)
		}
		s.checkDetail(c)
		for _, name := range []string{"rlock", "rfair", "rw", "both", "sem"} {
			s.breakAll(c, name)
		}
	})
}

func (s *subject) checkDetail(c *admin.Console) {
	s.Helper()
	d, err := c.Describe(s.Context(), "fenced")
	if err != nil || d.Token != 88 || len(d.Keys) != 2 || d.Keys[0].Type != "hash" || d.Keys[0].Value != javaClient+":7 → 1" || d.Keys[0].Remaining <= 0 {
		s.Errorf("fenced: got %+v, %v", d, err)
	}
	d, err = c.Describe(s.Context(), "rw")
	if err != nil || len(d.Keys) != 3 || d.Keys[2].Name != "{rw}:"+javaClient+":5:rwlock_timeout:2" {
		s.Errorf("rw: got %+v, %v", d.Keys, err)
	}
	for name, kind := range map[string]admin.Kind{"list": admin.KindOther, "map": admin.KindOther, "text": admin.KindOther, "nothing": ""} {
		d, err := c.Describe(s.Context(), name)
		if err != nil || d.Kind != kind || len(d.Holds) > 0 {
			s.Errorf("%s: got %+v, %v, want kind %q", name, d, err, kind)
		}
	}
}

// breakAll breaks every hold that a Look shows.
func (s *subject) breakAll(c *admin.Console, name string) {
	s.Helper()
	for range 5 {
		r := lookAt(s, c, name)
		if r.Holders == 0 {
			return
		}
		if err := c.ForceUnlock(s.Context(), name, r.Holds[0].Holder, "test"); err != nil {
			s.Errorf("ForceUnlock(%q, %+v): %v", name, r.Holds[0].Holder, err)
			return
		}
	}
	s.Errorf("%q is still held", name)
}

// Plain and timestamp locks are listed too, and say who of Holdfast has them.
func TestListStrings(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		now := strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10)
		for _, c := range [][]string{
			{"SET", "redsync", "c29tZSByYW5kb20gdmFsdWU=", "PX", "60000"},
			{"SET", "old", now, "PX", "60000"},
			{"SET", "long", strings.Repeat("x", 600), "PX", "60000"},
		} {
			s.server.Do(c...)
		}
		for protocol, want := range map[redishold.Layout]map[string]admin.Kind{
			redishold.Plain:     {"mine": admin.KindPlain, "redsync": admin.KindPlain, "old": admin.KindPlain},
			redishold.Timestamp: {"mine": admin.KindTimestamp},
		} {
			b := s.backend(&redishold.Options{Layout: protocol})
			l, c := s.drained(holdfast.New(b, &holdfast.Options{Note: "me"})), admin.New(b)
			lock := must.Lock(s, l, "mine")
			found := list(s, c, admin.Filter{})
			wantKinds(s, found, want)
			if h := found["mine"].Holds[0]; h.Note != "me" || h.Client.Library != "holdfast" || h.Remaining < 20*time.Second {
				s.Errorf("%s: got %+v", protocol, h)
			}
			if d, err := c.Describe(s.Context(), "mine"); err != nil || len(d.Keys) == 0 || d.Keys[0].Type != "string" {
				s.Errorf("%s: got %+v, %v", protocol, d, err)
			}
			must.Unlock(s, lock)
		}
	})
}

// Ten thousand locks among a hundred thousand other keys: all are found, the
// first at once, without KEYS, and with a pace the server is asked no more.
func TestListMany(t *testing.T) {
	await.NotShort(t, "takes long")
	eachAdapter(t, func(s *subject) {
		const locks, others = 10_000, 100_000
		for from := 1; from <= others; from += 5_000 { // a script that runs for five seconds makes the server refuse others
			s.server.Do("EVAL", `for i = tonumber(ARGV[1]), ARGV[1] + 4999 do
			if i <= tonumber(ARGV[2]) then redis.call('HSET', 'many:' .. i, ARGV[3] .. ':' .. i, '1') redis.call('PEXPIRE', 'many:' .. i, '60000') end
			if i % 2 == 0 then redis.call('SET', 'other:' .. i, i, 'PX', '60000')
			else redis.call('HSET', 'other:' .. i, 'f', i) redis.call('PEXPIRE', 'other:' .. i, '60000') end end`,
				"0", strconv.Itoa(from), strconv.Itoa(locks), javaClient)
		}
		c := s.console(nil)
		begun, first, n := time.Now(), time.Duration(0), 0
		for _, err := range c.List(s.Context(), admin.Filter{}) {
			if err != nil {
				s.Fatal(err)
			}
			if n++; n == 1 {
				first = time.Since(begun)
			}
		}
		s.Logf("first after %v, all %d after %v", first, n, time.Since(begun))
		if n != locks {
			s.Errorf("got %d, want %d", n, locks)
		}
		within(s, "the first", first, time.Second)
		s.checkLook(c)
		s.checkPace(c)
		s.checkBudget(c)
		if calls := s.server.CommandStats()["keys"]; calls != 0 {
			s.Errorf("KEYS was sent %d times", calls)
		}
		s.server.Do("FLUSHALL")
	})
}

// checkLook fails if a look at a page of rows costs more than three commands for
// each, and a few for all together.
func (s *subject) checkLook(c *admin.Console) {
	s.Helper()
	const rows = 40
	var names []string
	for i := range rows {
		names = append(names, fmt.Sprintf("many:%d", i+1))
	}
	before := s.commands()
	if _, err := c.Get(s.Context(), names...); err != nil {
		s.Fatal(err)
	}
	if got := s.commands() - before; got > 3*rows+10 {
		s.Errorf("a look at %d locks cost %d commands", rows, got)
	}
}

func (s *subject) checkPace(c *admin.Console) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
	defer cancel()
	before, n := s.commands(), 0
	var last error
	for _, err := range c.List(ctx, admin.Filter{Pace: 100, NamePrefix: "many:"}) {
		last = err
		n++
	}
	if !errors.Is(last, context.DeadlineExceeded) || n < 20 {
		s.Errorf("with a pace: got %d, ended by %v", n, last)
	}
	// A burst of 200, 2 s of 100 each, and what one step is more.
	if got := s.commands() - before; got > 200+2*100+200 {
		s.Errorf("with a pace of 100 the server ran %d commands in 2 s", got)
	}
}

// commands returns how many commands the server has run.
func (s *subject) commands() int {
	s.Helper()
	for line := range strings.Lines(s.server.String("INFO", "stats")) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			n, _ := strconv.Atoi(text)
			return n
		}
	}
	s.Fatal("INFO does not tell total_commands_processed")
	return 0
}

func (s *subject) checkBudget(c *admin.Console) {
	s.Helper()
	n := 0
	var last error
	for _, err := range c.List(s.Context(), admin.Filter{Keys: 1000}) {
		if last = err; err == nil {
			n++
		}
	}
	if !errors.Is(last, admin.ErrIncomplete) || n == 0 || n > 1000 {
		s.Errorf("with a budget of 1000 keys: got %d, ended by %v", n, last)
	}
}

// Keys that come and go, names of any bytes and any length.
func TestListStrangeNames(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		l, c := s.other(nil), s.console(nil)
		huge := strings.Repeat("n", 100_000)
		names := []string{huge, "*", "a\nb", "<script>", "\xff\x00", "über", "a{b", "[x]", `back\slash`, "x:timeout"}
		want := map[string]admin.Kind{}
		for _, name := range names {
			must.Lock(s, l, name, holdfast.FixedLease(time.Minute))
			want[name] = admin.KindMutex
		}
		wantKinds(s, list(s, c, admin.Filter{}), want)
		for _, name := range names {
			if got := list(s, c, admin.Filter{NamePrefix: name}); len(got) != 1 {
				s.Errorf("with prefix %.20q: got %d locks, want 1", name, len(got))
			}
		}
	})
}

func TestListWhileKeysVanish(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		s.server.Do("EVAL", `for i = 1, 3000 do redis.call('HSET', 'v:' .. i, ARGV[1] .. ':' .. i, '1') redis.call('PEXPIRE', 'v:' .. i, '60000') end`, "0", javaClient)
		n := 0
		for r, err := range s.console(nil).List(s.Context(), admin.Filter{}) {
			if err != nil {
				s.Fatal(err)
			}
			if r.Holders != 1 {
				s.Errorf("%s: got %+v", r.Name, r)
			}
			if n++; n == 100 {
				s.server.Do("FLUSHALL")
			}
		}
		if n < 100 || n > 400 {
			s.Errorf("got %d locks, want about one page", n)
		}
	})
}

// A forced unlock notifies the holder, and the first in the queue of a fair
// lock: both act at once, long before the next renewal or look.
func TestBreakIsHeardAtOnce(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const limit = 500 * time.Millisecond
		l, other, c := s.other(&holdfast.Options{TTL: 30 * time.Second}), s.other(nil), s.console(nil)
		defer s.listens(l)()
		for name, mutex := range map[string]func(*holdfast.Locker) *holdfast.Mutex{
			"mutex": func(l *holdfast.Locker) *holdfast.Mutex { return l.Mutex("m") },
			"fair":  func(l *holdfast.Locker) *holdfast.Mutex { return l.FairMutex("f") },
			"read":  func(l *holdfast.Locker) *holdfast.Mutex { return l.RWMutex("r").Read },
			"write": func(l *holdfast.Locker) *holdfast.Mutex { return l.RWMutex("w").Write },
		} {
			lock, err := mutex(l).Lock(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			next := make(chan time.Time, 1)
			if name != "read" {
				go func() {
					if k, err := mutex(other).Lock(s.Context()); err == nil {
						at := time.Now()
						_ = k.Unlock()
						next <- at
					}
				}()
				if !await.Eventually(5*time.Second, func() bool {
					r := lookAt(s, c, lock.Name())
					return r.Waiting+r.Listeners > 0
				}) {
					s.Fatalf("%s: nobody waits", name)
				}
			}
			begun := time.Now()
			if err := c.ForceUnlock(s.Context(), lock.Name(), lookAt(s, c, lock.Name()).Holds[0].Holder, "maintenance"); err != nil {
				s.Fatalf("%s: %v", name, err)
			}
			select {
			case <-lock.Context(s.Context()).Done():
				within(s, name+": the holder hears", time.Since(begun), limit)
			case <-time.After(5 * time.Second):
				s.Errorf("%s: the holder has heard nothing", name)
			}
			if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), "maintenance") {
				s.Errorf("%s: got %v, want a loss with the reason", name, err)
			}
			if name != "read" {
				within(s, name+": the next", (<-next).Sub(begun), limit)
			}
		}
	})
}

// The rights that docs/redis.md lists for looking are enough. A missing one is an
// error, and not a list that is too short.
func TestListRights(t *testing.T) {
	const rights = "~app:* ~{app:* ~redisson_lock_queue:* ~redisson_lock_timeout:* ~redisson_lock_token:* " +
		"+evalsha +eval +info +hello +ping +scan +hscan +hget +hlen +get +getrange +strlen +pttl +time +type " +
		"+lrange +llen +zscore +zcount +zcard +zrange +zrangebyscore +pubsub"
	doc, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "`"+rights+"`") {
		t.Errorf("docs/redis.md does not list %q", rights)
	}
	eachAdapter(t, func(s *subject) {
		owner := javaClient + ":1"
		for _, c := range []string{
			"HSET app:fair " + owner + " 1", "RPUSH redisson_lock_queue:{app:fair} " + owner, "ZADD redisson_lock_timeout:{app:fair} 9999999999999 " + owner,
			"SET app:permits 1", "ZADD {app:permits}:timeout 9999999999999 id", "SET app:number 1",
		} {
			s.server.Do(strings.Fields(c)...)
		}
		grant := func(more ...string) {
			rule := append([]string{"ACL", "SETUSER", "app", "reset", "resetchannels", "on", ">app"}, strings.Fields(rights)...)
			if err, ok := s.server.Do(append(rule, more...)...).(error); ok {
				s.Fatal(err)
			}
		}
		grant()
		conn, shut, err := dial.Server(s.adapter, s.server.Addr(), "app", "app")
		if err != nil {
			s.Fatal(err)
		}
		defer shut()
		c := admin.New(redishold.New(conn, &redishold.Options{KeyPrefix: "app:"}))
		if n, err := lookEverywhere(s.Context(), c); err != nil || n != 3 {
			s.Fatalf("got %d locks and error %v, want 3", n, err)
		}
		for _, right := range []string{"-dbsize", "+dbsize"} {
			want := 0
			if right == "+dbsize" {
				want = 6
			}
			grant(right)
			all := 0
			for _, err := range c.List(s.Context(), admin.Filter{Progress: func(_, n int) { all = n }}) {
				if err != nil {
					s.Fatalf("%s: got error %v of a list that counts keys", right, err)
				}
			}
			if all != want {
				s.Errorf("%s: got %d keys, want %d", right, all, want)
			}
		}
		grant()
		if why, err := c.ForceReasons(s.Context(), []admin.Ended{{Name: "fair", Owner: owner}}); err != nil || why[0] != "" {
			s.Fatalf("got %q and error %v, want that nobody was forced", why, err)
		}
		for _, right := range strings.Fields(rights) {
			switch right {
			case "+evalsha", "+eval", "+info", "+hello", "+ping", "+hget", "+llen", "+get": // to connect; for more than there is here; for clients that register
				continue
			}
			without := "-" + right[1:]
			if right[0] == '~' {
				grant()
				s.server.Do("ACL", "SETUSER", "app", "resetkeys")
				s.server.Do(append([]string{"ACL", "SETUSER", "app"}, slices.DeleteFunc(strings.Fields(rights), func(r string) bool { return r == right })...)...)
			} else {
				grant(without)
			}
			n, err := lookEverywhere(s.Context(), c)
			if wrong := !errors.Is(err, driver.ErrRefused); wrong && right != "+pubsub" {
				s.Errorf("without %s: got %d locks and error %v, want ErrRefused", right, n, err)
			}
			if right == "+pubsub" && (err != nil || lookAt(s, c, "fair").Listeners != -1) {
				s.Errorf("without %s: got error %v and %+v", right, err, lookAt(s, c, "fair"))
			}
		}
		s.server.Do("FLUSHALL")
	})
}

// lookEverywhere lists locks and looks at each.
func lookEverywhere(ctx context.Context, c *admin.Console) (n int, err error) {
	for r, err := range c.List(ctx, admin.Filter{Counters: true}) {
		if err != nil {
			return n, err
		}
		if _, err := c.Describe(ctx, r.Name); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
