package scripttest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// What the scripts of all kinds of lock do alike: for the owner, for a stranger, and for
// an owner that was given up or broken.

// eachKind runs a test for each kind, on an empty server.
func eachKind(t *testing.T, test func(b *bench, k kind)) {
	t.Helper()
	b := newBench(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			b.String("FLUSHALL")
			test(b.in(t), k)
		})
	}
}

// in returns b for a subtest.
func (b *bench) in(t *testing.T) *bench {
	return &bench{Server: b.Server.Bind(t), t: t, client: b.client}
}

func (b *bench) call(s script) any {
	b.t.Helper()
	return b.run(s.name, s.keys, s.args...)
}

func (b *bench) wantCall(want any, s script) {
	b.t.Helper()
	b.want(want, s.name, s.keys, s.args...)
}

// wantOOM wants a call to be refused by a full server, and to leave everything.
func (b *bench) wantOOM(s script) {
	b.t.Helper()
	before := b.stored()
	if got, err := eval(b.t, b.client, s.name, s.keys, s.args...); err == nil || !strings.Contains(err.Error(), "OOM") {
		b.t.Fatalf("%s: got %v and error %v, want OOM", s.name, got, err)
	}
	b.wantStored(before)
}

// stored is every key with its value.
func (b *bench) stored() map[string]any {
	b.t.Helper()
	all := map[string]any{}
	for _, key := range b.Keys() {
		all[key] = b.Do("DUMP", key)
	}
	return all
}

// wantStored wants what is stored to be what it was before, but for some keys.
func (b *bench) wantStored(before map[string]any, but ...string) {
	b.t.Helper()
	after := b.stored()
	for _, key := range but {
		delete(after, key)
	}
	if !reflect.DeepEqual(before, after) {
		b.t.Fatalf("what is stored changed: was %q, is %q", before, after)
	}
}

func (b *bench) wantKeys(want ...string) {
	b.t.Helper()
	slices.Sort(want)
	if got := b.Keys(); !slices.Equal(got, want) {
		b.t.Fatalf("keys: got %q, want %q", got, want)
	}
}

func (b *bench) wantLease(k kind, owner string, want int64) {
	b.t.Helper()
	if got := k.lease(b, owner); got > want+1 || got < want-5000 {
		b.t.Fatalf("lease of %s: got %d ms, want about %d", owner, got, want)
	}
}

func (b *bench) wantCount(k kind, owner, want string) {
	b.t.Helper()
	if got := b.Do("HGET", k.lock, k.field(owner)); k.counted && got != any(want) {
		b.t.Fatalf("holds of %s: got %v, want %s", owner, got, want)
	}
}

// wantHeard wants the end of a hold to have been published, and nothing else.
func (b *bench) wantHeard(heard *redistest.Listener, k kind) {
	b.t.Helper()
	b.wantPayloads(heard, k.channel, k.heard...)
}

// ended is the reply of a script that ended a hold: one more than the receivers of its message.
func (k kind) ended() any { return n(int64(1 + len(k.heard))) }

func TestAcquireAgainIsTheSameGrant(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		first := b.token(b.call(k.acquire("a:1", 20000, 1)))
		b.wantLease(k, "a:1", 20000)
		b.wantCount(k, "a:1", "1")
		if second := b.token(b.call(k.acquire("a:1", 10000, 2))); second < first+3 {
			b.t.Fatalf("second token: got %d, want beyond the block that began at %d", second, first)
		}
		b.wantLease(k, "a:1", 20000) // not shortened
		b.wantCount(k, "a:1", "2")
		b.call(k.acquire("a:1", 60000, 2))
		b.wantLease(k, "a:1", 60000)
		if k.mends {
			b.Int("PERSIST", k.lock)
			b.call(k.acquire("a:1", 30000, 2))
			b.wantLease(k, "a:1", 30000)
		}
		if stay := b.KeysWithoutTTL(func(key string) bool { return slices.Contains(k.stays, key) }); len(stay) > 0 && k.lock != jobs {
			b.t.Fatalf("keys without TTL: %q", stay)
		}
		b.Int("DEL", counterKey)
		b.call(k.release("a:1"))
		if next := b.token(b.call(k.acquire("b:1", 20000, 1))); next < first+6 {
			b.t.Fatalf("token after a lost counter: got %d, want beyond those from %d", next, first)
		}
	})
}

// A stranger gets nothing of a hold, and changes nothing of it, whatever it calls.
func TestAcquireOfAnothers(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		other := k
		if k.rival != "" {
			b.wantUntouched(k, k)
			other = kindOf(b.t, k.rival)
			b.String("FLUSHALL")
		}
		b.call(other.acquire("b:1", 20000, 1))
		before := b.stored()
		busy, _ := b.call(k.acquire("a:1", 90000, 1)).([]any)
		if len(busy) != 4 || busy[1].(int64) < 15000 || busy[1].(int64) > 20001+k.rounds {
			b.t.Fatalf("got %v, want busy for 20 s", busy)
		}
		if want := list(n(0), busy[1], other.field("b:1"), "1"); !reflect.DeepEqual(any(busy), want) {
			b.t.Fatalf("got %v, want %v", busy, want)
		}
		b.wantStored(before)
		b.String("FLUSHALL")
		b.wantUntouched(k, other)
	})
}

// wantUntouched wants the calls of a:1, which holds nothing, to do nothing to the hold of
// b:1.
func (b *bench) wantUntouched(k, other kind) {
	b.t.Helper()
	b.call(other.acquire("b:1", 20000, 1))
	before := b.stored()
	b.wantCall(n(0), k.renew("a:1", 90000, 1))
	b.wantCall(n(0), k.release("a:1"))
	if k.force != nil {
		b.wantCall(n(0), k.force("a:1", 1))
	}
	b.wantStored(before)
	b.wantCall(n(0), k.abandon("a:1"))
	b.wantStored(before, k.mark("a:1"))
	b.wantTTL(k.mark("a:1"), 20000)
	b.wantLease(other, "b:1", 20000)
}

func TestRenew(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		b.wantCall(n(0), k.renew("a:1", 20000, 1))
		b.wantKeys() // a renewal brings nothing back
		b.call(k.acquire("a:1", 20000, 1))
		b.wantCall(n(1), k.renew("a:1", 60000, 1))
		b.wantLease(k, "a:1", 60000)
		b.wantCall(n(1), k.renew("a:1", 20000, 3))
		b.wantLease(k, "a:1", 60000)
		b.wantCount(k, "a:1", "3")
	})
}

func TestRelease(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		heard := b.Listen("*")
		b.wantCall(n(0), k.release("a:1"))
		b.wantKeys()
		b.call(k.acquire("a:1", 20000, 2))
		b.wantCall(k.ended(), k.release("a:1"))
		b.wantCall(n(0), k.release("a:1"))
		b.wantKeys(slices.Clone(k.stays)...)
		b.wantHeard(heard, k)
	})
}

func TestAbandon(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		late := func() {
			b.t.Helper()
			b.wantTTL(k.mark("a:1"), 20000)
			before := b.stored()
			b.wantCall(list(n(-2), "abandoned"), k.acquire("a:1", 20000, 1))
			b.wantStored(before)
		}
		heard := b.Listen("*")
		b.wantCall(n(0), k.abandon("a:1")) // overtakes the acquire
		late()
		b.wantKeys(k.mark("a:1"))
		b.Int("PEXPIRE", k.mark("a:1"), "9000")
		b.wantCall(n(0), k.abandon("a:1"))
		late()
		b.Int("DEL", k.mark("a:1"))
		b.call(k.acquire("a:1", 20000, 1))
		b.wantCall(k.ended(), k.abandon("a:1"))
		b.wantCall(n(0), k.abandon("a:1"))
		late()
		b.wantKeys(append(slices.Clone(k.stays), k.mark("a:1"))...)
		b.wantHeard(heard, k)
	})
}

func TestBreak(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		if k.force == nil {
			b.t.Skip("its holds are ended as those of another kind")
		}
		heard := b.Listen("*")
		b.wantCall(n(0), k.force("a:1", 1))
		b.wantKeys()
		b.call(k.acquire("a:1", 20000, 2))
		before := b.stored()
		if k.counted {
			b.wantCall(n(0), k.force("a:1", 1))
			b.wantStored(before)
		}
		b.wantCall(k.ended(), k.force("a:1", 2))
		b.wantCall(n(0), k.force("a:1", 2))
		b.wantTTL(k.mark("a:1"), 20000)
		b.wantCall(list(n(-2), "forced: ops"), k.acquire("a:1", 20000, 1))
		b.wantKeys(append(slices.Clone(k.stays), k.mark("a:1"))...)
		b.wantHeard(heard, k)
	})
}

// A full server gives no new lock and leaves nothing of a try; what is held goes on.
func TestFullServer(t *testing.T) {
	eachKind(t, func(b *bench, k kind) {
		b.fill()
		b.wantOOM(k.acquire("a:1", 20000, 1))
		b.wantCall(n(0), k.abandon("a:1"))
		b.wantTTL(k.mark("a:1"), 20000)
		b.wantProbePasses(k.acquire("probe", 1, 1).keys, strings.Fields(k.probed)...)
		for name, end := range map[string]script{"release": k.release("a:1"), "abandon": k.abandon("a:1"), "force": k.force1("a:1")} {
			if end.name == "" {
				continue
			}
			b.String("CONFIG", "SET", "maxmemory", "0")
			b.String("FLUSHALL")
			b.call(k.acquire("a:1", 20000, 1))
			b.fill()
			b.call(k.acquire("a:1", 40000, 2))
			b.wantLease(k, "a:1", 40000)
			b.wantCall(n(1), k.renew("a:1", 60000, 1))
			b.wantLease(k, "a:1", 60000)
			b.wantCount(k, "a:1", "1")
			if k.rival == "" {
				if busy, _ := b.call(k.acquire("b:1", 20000, 1)).([]any); len(busy) != 4 {
					b.t.Fatalf("a stranger: got %v, want busy", busy)
				}
			}
			b.wantCall(n(1), end)
			stays := slices.Clone(k.stays)
			if name != "release" {
				stays = append(stays, k.mark("a:1"))
			}
			b.wantKeys(stays...)
		}
		b.String("CONFIG", "SET", "maxmemory", "0")
	})
}

// force1 is the end of one hold by force, if the kind has a call of its own for that.
func (k kind) force1(owner string) script {
	if k.force == nil {
		return script{}
	}
	return k.force(owner, 1)
}

// What is there is left as it is, and no token is drawn.
func TestAcquireRefuses(t *testing.T) {
	huge := []string{"HSET", lockKey}
	for i := range 5 {
		huge = append(huge, fmt.Sprint("field", i), "1")
	}
	end := []string{"PEXPIRE", lockKey, "20000"}
	redis := func(commands ...[]string) [][]string { return commands }
	const wrongType = "WRONGTYPE"
	b := newBench(t)
	for _, c := range []struct {
		kinds, name string
		setup       [][]string
		want        any // wrongType: an error with that word
	}{
		{"mutex", "another owner", redis([]string{"HSET", lockKey, "x:9", "2"}, end), list(n(0), "ttl", "x:9", "2")},
		{"mutex", "another owner without TTL", redis([]string{"HSET", lockKey, "x:9", "1"}), list(n(0), n(-1), "x:9", "1")},
		{"mutex", "a count of 0", redis([]string{"HSET", lockKey, "x:9", "0"}), list(n(0), n(-1), "x:9", "0")},
		{"mutex", "a huge hash", redis(huge, end), list(n(0), "ttl", "", "0")},
		{"mutex fair", "a huge hash without TTL", redis(huge), list(n(-1))},
		{"mutex fair", "data", redis([]string{"HSET", lockKey, "a", "b"}), list(n(-1))},
		{"mutex", "data that ends", redis([]string{"HSET", lockKey, "a", "b"}, end), list(n(0), "ttl", "a", "b")},
		{"mutex fair", "a read-write lock", redis([]string{"HSET", lockKey, "mode", "read", "x:9", "1"}, end), list(n(-1))},
		{"mutex", "an owner broken while it holds", redis([]string{"HSET", lockKey, "a:1", "1"}, []string{"SET", markKey, "forced: ops"}), list(n(-2), "forced: ops")},
		{"mutex fair reader writer", "a string", redis([]string{"SET", lockKey, "1"}), wrongType},
		{"mutex fair reader writer plain", "a list", redis([]string{"RPUSH", lockKey, "1"}), wrongType},

		{"reader writer", "a mutex", redis([]string{"HSET", lockKey, "x:9", "1"}), list(n(-1))},
		{"reader writer", "a mutex of its own", redis([]string{"HSET", lockKey, "a:1", "1", "a:1:write", "1"}), list(n(-1))},
		{"reader writer", "another mode", redis([]string{"HSET", lockKey, "mode", "odd"}), list(n(-1))},
		{"reader writer", "a writer without TTL", redis([]string{"HSET", lockKey, "mode", "write", "x:9:write", "2"}), list(n(0), n(-1), "x:9:write", "2")},
		{"reader writer", "a writer in a transaction", redis([]string{"HSET", lockKey, "mode", "write", "x:9", "1", "x:9:write:tx", "1"}), list(n(0), n(-1), "x:9:write:tx", "1")},

		{"permit", "none left", redis([]string{"SET", jobs, "0"}), list(n(0), n(-1), "", "1")},
		{"permit", "fewer than none", redis([]string{"SET", jobs, "-2"}), list(n(0), n(-1), "", "1")},
		{"permit", "a permit of Java's that never ends", redis([]string{"SET", jobs, "0"}, []string{"ZADD", jobsPermits, neverEnds, idB}), list(n(0), n(-1), idB, "1")},
		{"permit", "an owner broken", redis([]string{"SET", jobs, "1"}, []string{"SET", jobsMark, "forced: x"}), list(n(-2), "forced: x")},
		{"permit", "text", redis([]string{"SET", jobs, "text"}), list(n(-1))},
		{"permit", "a fraction", redis([]string{"SET", jobs, "1.5"}), list(n(-1))},
		{"permit", "a lock", redis([]string{"HSET", jobs, "a:1", "1"}), wrongType},
		{"permit", "a list", redis([]string{"RPUSH", jobs, "1"}), wrongType},
		{"permit", "a list beside", redis([]string{"SET", jobs, "1"}, []string{"RPUSH", jobsPermits, "1"}), wrongType},

		{"plain", "another library", redis([]string{"SET", lockKey, "MTIzNDU2Nzg5MDEyMzQ1Ng==", "NX", "PX", "20000"}), list(n(0), "ttl", "MTIzNDU2Nzg5MDEyMzQ1Ng==", "1")},
		{"plain", "a value without TTL", redis([]string{"SET", lockKey, "1"}), list(n(0), n(-1), "1", "1")},
		{"plain", "an empty value", redis([]string{"SET", lockKey, ""}), list(n(0), n(-1), "", "1")},
		{"plain timestamp", "a mutex", redis([]string{"HSET", lockKey, "a:1", "1"}), wrongType},
	} {
		for name := range strings.FieldsSeq(c.kinds) {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				b.String("FLUSHALL")
				b := b.in(t)
				b.setUp(c.setup)
				before, s := b.stored(), kindOf(t, name).acquire("a:1", 20000, 1)
				if name == "fair" {
					s.args[4] = presence // one that would wait, and leaves no place all the same
				}
				got, err := eval(t, b.client, s.name, s.keys, s.args...)
				if err != nil && strings.Contains(err.Error(), wrongType) {
					got = wrongType
				}
				if !reflect.DeepEqual(blurTTL(got), c.want) {
					t.Fatalf("got %#v and error %v, want %#v", got, err, c.want)
				}
				b.wantStored(before)
			})
		}
	}
}

// setUp runs commands that must succeed.
func (b *bench) setUp(commands [][]string) {
	b.t.Helper()
	for _, command := range commands {
		if err, failed := b.Do(command...).(error); failed {
			b.t.Fatal(err)
		}
	}
}
