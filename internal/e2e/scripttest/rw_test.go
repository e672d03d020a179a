package scripttest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The scripts of read-write locks, each by itself on a real server. What a
// Redisson client would have written is written by hand.

const (
	rwChannel = "redisson_rwlock:{stock:42}"
	rwPrefix  = "{stock:42}"
)

func rwKeys(owner string) []string {
	return []string{lockKey, "holdfast:gone:{stock:42}:" + owner, counterKey}
}

func timeoutKey(owner string, i int) string {
	return rwPrefix + ":" + owner + ":rwlock_timeout:" + strconv.Itoa(i)
}

type fields = map[string]string

func (b *bench) tryRead(owner string, ttl, holds int, beside string) any {
	b.t.Helper()
	return b.run("rw_read_acquire", append(rwKeys(owner), timeoutKey(owner, 1)), owner, ttl, holds, 1, beside)
}

func (b *bench) tryWrite(owner string, ttl, holds int) any {
	b.t.Helper()
	return b.run("rw_write_acquire", rwKeys(owner), owner, ttl, holds, 1, rwPrefix, "1")
}

// secondCall makes the second call of a script of read-write locks, if the reply to the first
// one names readers. It returns the reply of both.
func (b *bench) secondCall(reply any, script string, keys []string, args []any) any {
	b.t.Helper()
	l, _ := reply.([]any)
	switch {
	case script == "rw_write_acquire" && len(l) == 2 && l[0] == n(3):
		again := append(slices.Clone(args[:5]), "")
		return b.run(script, append(slices.Clone(keys), timeoutKeys(l[1].([]any))...), again...)
	case script == "rw_release" && len(l) > 0:
		b.run("rw_trim", append([]string{keys[0]}, timeoutKeys(l[1:])...), append([]any{args[1], args[2]}, args[6:]...)...)
		return l[0]
	}
	return reply
}

// timeoutKeys are those of readers: a field and a hold count of each.
func timeoutKeys(readers []any) (keys []string) {
	for reader := range slices.Chunk(readers, 2) {
		holds, _ := strconv.Atoi(reader[1].(string))
		for i := range holds {
			keys = append(keys, timeoutKey(reader[0].(string), i+1))
		}
	}
	return keys
}

// token returns the token of a reply that must be a grant.
func (b *bench) token(reply any) int64 {
	b.t.Helper()
	token, ok := reply.(int64)
	if !ok {
		b.t.Fatalf("got %v, want a grant", reply)
	}
	return token
}

func (b *bench) read(owner string, ttl, holds int) int64 {
	b.t.Helper()
	return b.token(b.tryRead(owner, ttl, holds, ""))
}

func (b *bench) write(owner string, ttl, holds int) int64 {
	b.t.Helper()
	return b.token(b.tryWrite(owner, ttl, holds))
}

// wantBusy wants a reply that names a holder.
func (b *bench) wantBusy(reply any, holder string) {
	b.t.Helper()
	if l, _ := reply.([]any); len(l) != 4 || l[0] != n(0) || l[2] != any(holder) {
		b.t.Fatalf("got %v, want busy, held by %s", reply, holder)
	}
}

func (b *bench) renewRead(owner string, ttl, holds int) any {
	b.t.Helper()
	return b.run("rw_read_renew", []string{lockKey, timeoutKey(owner, 1)}, owner, ttl, holds)
}

// wantLeave runs rw_release as a release does, and wants that reply.
func (b *bench) wantLeave(want int64, field string) {
	b.t.Helper()
	if got := b.leave(field); got != n(want) {
		b.t.Fatalf("release of %s: got %v, want %d", field, got, want)
	}
}

func (b *bench) leave(field string) any {
	b.t.Helper()
	return b.run("rw_release", []string{lockKey, timeoutKey(field, 1)}, field, rwPrefix, rwChannel, "", "", "", "PUBLISH")
}

// breakRW runs rw_release as Break does.
func (b *bench) breakRW(owner string, holds int) any {
	b.t.Helper()
	keys := []string{lockKey}
	for i := range holds {
		keys = append(keys, timeoutKey(owner, i+1))
	}
	return b.run("rw_release", append(keys, rwKeys(owner)[1]), owner, rwPrefix, rwChannel, holds, "forced: ops", 20000, "PUBLISH")
}

// javaRead makes the read hold of a Redisson client, one timeout key for each
// lease; a lease of 0 has ended.
func (b *bench) javaRead(owner string, leases ...int) {
	b.t.Helper()
	b.Int("HSET", lockKey, "mode", "read", owner, strconv.Itoa(len(leases)))
	longest := b.Int("PTTL", lockKey)
	for i, lease := range leases {
		if lease > 0 {
			b.String("SET", timeoutKey(owner, i+1), "1", "PX", strconv.Itoa(lease))
		}
		longest = max(longest, int64(lease), 30000) // a hash outlives its dead readers while others renew it
	}
	b.Int("PEXPIRE", lockKey, strconv.FormatInt(longest, 10))
}

// die lets a reader's lease end, and not its field.
func (b *bench) die(owner string) {
	b.t.Helper()
	b.Int("DEL", timeoutKey(owner, 1))
}

func TestReadersShare(t *testing.T) {
	b := newBench(t)
	first := b.read("a:1", 20000, 1)
	b.wantHash(fields{"mode": "read", "a:1": "1"})
	b.wantTTL(lockKey, 20000)
	b.wantTTL(timeoutKey("a:1", 1), 20000)
	if got := b.String("GET", timeoutKey("a:1", 1)); got != "1" {
		t.Fatalf("timeout key: got %q, want 1", got)
	}
	second := b.read("b:1", 60000, 2)
	b.wantHash(fields{"mode": "read", "a:1": "1", "b:1": "2"})
	b.wantTTL(lockKey, 60000)
	b.wantTTL(timeoutKey("a:1", 1), 20000)
	b.wantTTL(timeoutKey("b:1", 1), 60000)
	third := b.read("c:1", 10000, 1)
	b.wantTTL(lockKey, 60000) // not shortened
	if second <= first || third <= second {
		t.Fatalf("tokens: got %d, %d, %d, want them to rise", first, second, third)
	}
	b.wantKeys(counterKey, lockKey, timeoutKey("a:1", 1), timeoutKey("b:1", 1), timeoutKey("c:1", 1))
	b.wantNothingStays()
}

func TestWriterExcludes(t *testing.T) {
	b := newBench(t)
	first := b.write("a:1", 20000, 1)
	b.wantHash(fields{"mode": "write", "a:1:write": "1"})
	b.wantTTL(lockKey, 20000)
	want := list(n(0), "ttl", "a:1:write", "1")
	for side, reply := range map[string]any{
		"write":                              b.tryWrite("b:1", 90000, 1),
		"read":                               b.tryRead("b:1", 90000, 1, ""),
		"beside somebody who does not write": b.tryRead("b:1", 90000, 1, "c:1:write"),
	} {
		if got := blurTTL(reply); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v", side, got, want)
		}
	}
	b.wantTTL(lockKey, 20000)
	b.leave("a:1:write")
	if got := b.read("b:1", 20000, 1); got <= first {
		t.Fatalf("a reader's token: got %d, want more than the writer's, %d", got, first)
	}
	b.wantNothingStays()
}

// A reader whose lease has ended comes back with a lease of its own.
func TestReaderComesBack(t *testing.T) {
	b := newBench(t)
	b.read("a:1", 20000, 2)
	b.die("a:1")
	b.read("a:1", 60000, 1)
	b.wantHash(fields{"mode": "read", "a:1": "1"})
	b.wantTTL(lockKey, 60000)
	b.wantTTL(timeoutKey("a:1", 1), 60000)
}

func TestWriterWaitsForLiveReadersOnly(t *testing.T) {
	b := newBench(t)
	b.javaRead("j:1", 0, 15000, 0)
	b.javaRead("j:2", 0, 0)
	b.read("a:1", 20000, 1)
	b.read("a:2", 60000, 2)
	b.die("a:2")
	b.read("a:3", 10000, 1)
	b.Int("HSET", lockKey, "j:3", "0", "j:4", "text")

	got := blurTTL(b.tryWrite("w:1", 20000, 1))
	if want := list(n(0), "ttl", "a:1", "1"); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	b.wantHash(fields{"mode": "read", "j:1": "3", "a:1": "1", "a:3": "1"}) // a reader without a live timeout key is gone
	b.wantTTL(lockKey, 60000)
	b.die("a:1")
	if l := b.tryWrite("w:1", 20000, 1).([]any); l[0] != n(0) || l[1].(int64) > 15000 || l[2] != "j:1" || l[3] != "3" {
		t.Fatalf("got %v, want j:1 in the way, for at most 15000 ms", l)
	}
	b.wantHash(fields{"mode": "read", "j:1": "3", "a:3": "1"})
	b.die("a:3")
	b.Int("DEL", timeoutKey("j:1", 2))
	b.write("w:1", 20000, 1)
	b.wantHash(fields{"mode": "write", "w:1:write": "1"})
	b.wantTTL(lockKey, 20000)
	b.want(n(0), "rw_read_renew", []string{lockKey, timeoutKey("a:1", 1)}, "a:1", 60000, 1)
	b.wantTTL(lockKey, 20000)
	if got := b.Int("EXISTS", timeoutKey("a:1", 1)); got != 0 {
		t.Fatal("a reader that lost its hold made its timeout key again")
	}
}

// A reader whose timeout key never ends, which no client makes, is uncertain: it
// keeps writers out until somebody breaks its hold.
func TestWriterWaitsForReaderWithoutEnd(t *testing.T) {
	b := newBench(t)
	b.read("a:1", 20000, 1)
	b.Int("HSET", lockKey, "w:1", "1")
	b.String("SET", timeoutKey("w:1", 1), "1")
	for range 2 {
		b.wantBusy(b.tryWrite("w:2", 20000, 1), "w:1")
		b.die("a:1")
	}
	b.Int("DEL", timeoutKey("w:1", 1))
	b.write("w:2", 20000, 1)
}

func TestWriterComesInBehindManyDeadReaders(t *testing.T) {
	b := newBench(t)
	const readers = 5000
	for i := range readers / 100 {
		command := []string{"HSET", lockKey, "mode", "read"}
		for j := range 100 {
			command = append(command, fmt.Sprintf("dead:%d", i*100+j), "1")
		}
		b.Int(command...)
	}
	b.Int("PEXPIRE", lockKey, "60000")
	tries := 1
	for before := int64(readers) + 1; ; tries++ {
		reply := b.tryWrite("w:1", 20000, 1)
		if granted(reply) {
			break
		}
		l, left := reply.([]any), b.Int("HLEN", lockKey)
		if l[0] != n(0) || l[1] != n(100) || left >= before || before-left > 2000 {
			t.Fatalf("try %d: got %v and %d fields after %d, want some fewer, and to be asked again", tries, l, left, before)
		}
		before = left
	}
	b.wantHash(fields{"mode": "write", "w:1:write": "1"})
	if tries < 3 {
		t.Fatalf("got in after %d tries: the work of one is not bounded", tries)
	}
}

// A reader that comes between the two calls is not among the keys of the second. It counts as
// live, and its lease stays.
func TestReadersThatCameSince(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.read("a:1", 20000, 1)
	b.read("a:2", 20000, 1)
	first, err := eval(t, b.client, "rw_write_acquire", rwKeys("w:1"), "w:1", 20000, 1, 1, rwPrefix, "1")
	if want := list(n(3), list("a:1", "1", "a:2", "1")); err != nil || !reflect.DeepEqual(first, want) {
		t.Fatalf("got %v and error %v, want %v", first, err, want)
	}
	b.die("a:1")
	b.die("a:2")
	b.read("b:1", 60000, 1)
	keys := append(rwKeys("w:1"), timeoutKey("a:1", 1), timeoutKey("a:2", 1))
	if got := b.run("rw_write_acquire", keys, "w:1", 20000, 1, 1, rwPrefix, ""); !reflect.DeepEqual(got, list(n(0), n(100), "", "0")) {
		t.Fatalf("with dead readers: got %v, want it to be asked again soon", got)
	}
	b.wantHash(fields{"mode": "read", "b:1": "1"})
	if got := b.run("rw_write_acquire", keys, "w:1", 20000, 1, 1, rwPrefix, "").([]any); got[0] != n(0) || got[1].(int64) < 50000 || got[2] != "" {
		t.Fatalf("got %v, want busy, for as long as the lock", got)
	}

	b.read("a:1", 20000, 1)
	left, err := eval(t, b.client, "rw_release", []string{lockKey, timeoutKey("b:1", 1)}, "b:1", rwPrefix, rwChannel, "", "", "", "PUBLISH")
	if want := list(n(1), "a:1", "1"); err != nil || !reflect.DeepEqual(left, want) {
		t.Fatalf("release: got %v and error %v, want %v", left, err, want)
	}
	b.wantTTL(lockKey, 60000)
	b.die("a:1")
	b.read("c:1", 30000, 1)
	b.want(n(0), "rw_trim", []string{lockKey, timeoutKey("a:1", 1)}, rwPrefix, rwChannel, "PUBLISH")
	b.wantHash(fields{"mode": "read", "c:1": "1"})
	b.wantTTL(lockKey, 60000)
	b.want(n(0), "rw_trim", []string{lockKey, timeoutKey("c:1", 1)}, rwPrefix, rwChannel, "PUBLISH")
	b.wantTTL(lockKey, 30000)
	b.wantPayloads(heard, rwChannel)
	heard.Stop()
	heard = b.Listen("*")
	b.die("c:1")
	b.want(n(2), "rw_trim", []string{lockKey, timeoutKey("c:1", 1)}, rwPrefix, rwChannel, "PUBLISH")
	b.wantHash(fields{})
	b.wantPayloads(heard, rwChannel, "0")
}

// A trim changes only a lock that readers hold.
func TestTrimOfNoReaders(t *testing.T) {
	b := newBench(t)
	trim := func() any {
		return b.run("rw_trim", []string{lockKey, timeoutKey("a:2", 1)}, rwPrefix, rwChannel, "PUBLISH")
	}
	if got := trim(); got != n(0) {
		t.Errorf("of a free lock: got %v, want 0", got)
	}
	b.write("a:1", 60000, 1)
	b.tryRead("a:2", 20000, 1, "a:1:write")
	b.die("a:2")
	if got := trim(); got != n(0) {
		t.Errorf("of a writer: got %v, want 0", got)
	}
	b.wantHash(fields{"mode": "write", "a:1:write": "1", "a:2": "1"})
	b.wantTTL(lockKey, 60000)
}

func TestReadRenew(t *testing.T) {
	b := newBench(t)
	b.read("a:1", 20000, 1)
	b.read("b:1", 20000, 1)
	if got := b.renewRead("a:1", 60000, 3); got != n(1) {
		t.Fatalf("got %v, want 1", got)
	}
	b.wantTTL(lockKey, 60000)
	b.wantTTL(timeoutKey("a:1", 1), 60000)
	b.wantTTL(timeoutKey("b:1", 1), 20000)
	b.renewRead("b:1", 30000, 1)
	b.wantTTL(lockKey, 60000) // not shortened
	b.wantTTL(timeoutKey("b:1", 1), 30000)
	b.renewRead("a:1", 30000, 3)
	b.wantTTL(timeoutKey("a:1", 1), 60000) // neither

	b.die("b:1") // paused beyond its lease
	b.renewRead("b:1", 30000, 1)
	b.wantTTL(timeoutKey("b:1", 1), 30000)
	b.leave("a:1")
	b.wantHash(fields{"mode": "read", "b:1": "1"})
	b.wantBusy(b.tryWrite("w:1", 20000, 1), "b:1")
	b.wantNothingStays()
}

func TestReadRelease(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.want(n(0), "rw_release", []string{lockKey}, "a:1", rwPrefix, rwChannel, "", "", "", "PUBLISH")
	b.read("a:1", 60000, 2)
	b.read("b:1", 20000, 1)
	b.javaRead("j:1", 0, 40000)
	b.javaRead("j:2", 0)
	b.wantLeave(0, "c:1") // a stranger
	b.wantLeave(1, "a:1")
	b.wantHash(fields{"mode": "read", "b:1": "1", "j:1": "2"})
	b.wantTTL(lockKey, 40000) // the longest of those who stay
	b.leave("a:1")
	b.leave("b:1")
	b.wantTTL(lockKey, 40000)
	b.read("c:1", 20000, 1)
	b.Int("DEL", timeoutKey("j:1", 2))
	b.wantPayloads(heard, rwChannel) // nobody can come in yet
	b.leave("c:1")
	b.wantHash(fields{})
	b.wantKeys(counterKey)
	heard.Stop()
	heard = b.Listen("*")
	b.read("a:1", 20000, 1)
	b.wantLeave(2, "a:1")
	b.wantPayloads(heard, rwChannel, "0")
}

func TestDowngrade(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	written := b.write("a:1", 60000, 1)
	if got := b.token(b.tryRead("a:2", 20000, 1, "a:1:write")); got <= written {
		t.Fatalf("token: got %d, want more than %d", got, written)
	}
	b.wantHash(fields{"mode": "write", "a:1:write": "1", "a:2": "1"})
	b.wantTTL(lockKey, 60000)
	b.wantTTL(timeoutKey("a:2", 1), 20000)
	b.wantBusy(b.tryRead("b:1", 20000, 1, ""), "a:1:write")
	b.wantLeave(2, "a:1:write")
	b.wantHash(fields{"mode": "read", "a:2": "1"})
	b.wantTTL(lockKey, 20000)
	b.read("b:1", 20000, 1)
	b.wantPayloads(heard, rwChannel, "1")
}

func TestDowngradeToADeadReaderFreesTheLock(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.write("a:1", 60000, 1)
	b.tryRead("a:2", 20000, 1, "a:1:write")
	b.die("a:2")
	b.leave("a:1:write")
	b.wantHash(fields{})
	b.wantPayloads(heard, rwChannel, "1", "0")
}

func TestDowngradeKeepsALongerReader(t *testing.T) {
	b := newBench(t)
	b.write("a:1", 20000, 1)
	b.tryRead("a:2", 60000, 1, "a:1:write")
	b.wantTTL(lockKey, 60000)
	b.leave("a:1:write")
	b.wantTTL(lockKey, 60000)
}

func TestReadReleaseBesideAWriterTouchesNothingElse(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.write("a:1", 60000, 1)
	b.tryRead("a:2", 20000, 1, "a:1:write")
	b.tryRead("a:3", 20000, 1, "a:1:write")
	b.die("a:3") // nobody prunes beside a writer
	b.leave("a:2")
	b.wantHash(fields{"mode": "write", "a:1:write": "1", "a:3": "1"})
	b.wantTTL(lockKey, 60000) // the writer's, not the other reader's
	b.leave("a:3")
	b.wantHash(fields{"mode": "write", "a:1:write": "1"})
	b.wantTTL(lockKey, 60000)
	b.wantPayloads(heard, rwChannel)
}

// A Redisson thread that holds both sides, each twice.
func (b *bench) javaBoth() {
	b.t.Helper()
	b.Int("HSET", lockKey, "mode", "write", "j:9:write", "2", "j:9", "2")
	b.Int("PEXPIRE", lockKey, "40000")
	b.String("SET", timeoutKey("j:9", 1), "1", "PX", "20000")
	b.String("SET", timeoutKey("j:9", 2), "1", "PX", "20000")
}

func TestReadWriteBreak(t *testing.T) {
	ended, unchanged := n(1), n(0)
	for _, c := range []struct {
		name  string
		setup func(*bench)
		owner string
		holds int
		want  any
		hash  fields
		gone  []string // timeout keys
	}{
		{"a reader among others", func(b *bench) { b.read("a:1", 20000, 2); b.read("b:1", 20000, 1) }, "a:1", 2, ended, fields{"mode": "read", "b:1": "1"}, []string{timeoutKey("a:1", 1)}},
		{"another count", func(b *bench) { b.read("a:1", 20000, 2); b.read("b:1", 20000, 1) }, "a:1", 1, unchanged, fields{"mode": "read", "a:1": "2", "b:1": "1"}, nil},
		{"nobody", func(b *bench) { b.read("b:1", 20000, 1) }, "a:1", 1, unchanged, fields{"mode": "read", "b:1": "1"}, nil},
		{"a Redisson reader", func(b *bench) { b.javaRead("j:1", 20000, 30000); b.read("b:1", 20000, 1) }, "j:1", 2, ended, fields{"mode": "read", "b:1": "1"}, []string{timeoutKey("j:1", 1), timeoutKey("j:1", 2)}},
		{"a writer before its reader", func(b *bench) { b.write("a:1", 20000, 1); b.tryRead("a:2", 20000, 1, "a:1:write") }, "a:1", 1, ended, fields{"mode": "read", "a:2": "1"}, nil},
		{"the read side of a thread", (*bench).javaBoth, "j:9", 2, ended, fields{"mode": "write", "j:9:write": "2"}, []string{timeoutKey("j:9", 1), timeoutKey("j:9", 2)}},
		{"the write side of a thread", (*bench).javaBoth, "j:9:write", 2, ended, fields{"mode": "read", "j:9": "2"}, nil},
		{"a plain lock", func(b *bench) { b.Int("HSET", lockKey, "a:1", "1"); b.Int("PEXPIRE", lockKey, "20000") }, "a:1", 1, unchanged, fields{"a:1": "1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.setup(b)
			if got := b.breakRW(c.owner, c.holds); !reflect.DeepEqual(got, c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			b.wantHash(c.hash)
			for _, key := range c.gone {
				if b.Int("EXISTS", key) != 0 {
					t.Errorf("%s is still there", key)
				}
			}
			if marked := b.Int("EXISTS", rwKeys(c.owner)[1]) == 1; marked != reflect.DeepEqual(c.want, ended) {
				t.Errorf("is there a mark? got %v", marked)
			}
			b.wantNothingStays()
		})
	}
}

func TestBreakLeavesAReadWriteLockAlone(t *testing.T) {
	b := newBench(t)
	b.read("a:1", 20000, 1)
	b.read("b:1", 20000, 1)
	b.want(n(0), "force", rwKeys("a:1")[:2], "a:1", 1, "ops", 20000, channel, "PUBLISH")
	b.wantHash(fields{"mode": "read", "a:1": "1", "b:1": "1"})
}

func TestReadWriteLook(t *testing.T) {
	b := newBench(t)
	look := func() []any {
		t.Helper()
		keys := []string{lockKey, "queue", "deadlines", "alive", "permits"}
		return b.run("list_redisson", keys, 32, "", "1", "2", "3", "4").([]any)[0].([]any)
	}
	holds := func() (holders []any) {
		t.Helper()
		l := look()
		if len(l) != 6 || l[0] != "readers" {
			t.Fatalf("got %v, want it to be held", l)
		}
		for h := range slices.Chunk(l[2].([]any), 2) {
			if h[0] == "mode" {
				continue
			}
			leases := []any{}
			if keys := timeoutKeys(h); !strings.HasSuffix(h[0].(string), ":write") {
				leases = b.run("list_leases", keys).([]any)
			}
			for i, left := range leases {
				leases[i] = (left.(int64) + 9999) / 10000 * 10 // seconds, rounded up to tens
			}
			holders = append(holders, append(h, leases...))
		}
		return holders
	}
	if got := look(); got[0] != "free" {
		t.Fatalf("got %v, want it to be free", got)
	}
	b.read("a-1:1", 20000, 2)
	b.javaRead("j-1:1", 0, 40000, 30000)
	b.javaRead("j-1:2", 0)
	want := []any{list("a-1:1", "2", n(20), n(0)), list("j-1:1", "3", n(0), n(40), n(30)), list("j-1:2", "1", n(0))}
	if got := holds(); !reflect.DeepEqual(got, want) {
		t.Fatalf("readers: got %v, want %v", got, want)
	}
	b.want(list(n(1), "a-1:1", "", n(1)), "explain", rwKeys("a-1:1"))
	b.String("FLUSHALL")
	b.Int("HSET", lockKey, "mode", "write", "j-1:9:write", "2", "j-1:9", "2")
	b.Int("PEXPIRE", lockKey, "40000")
	b.String("SET", timeoutKey("j-1:9", 1), "1", "PX", "20000")
	want = []any{list("j-1:9:write", "2"), list("j-1:9", "2", n(20), n(0))}
	if got := holds(); !reflect.DeepEqual(got, want) {
		t.Fatalf("both sides: got %v, want %v", got, want)
	}
}

func TestReadWriteOnAFullServer(t *testing.T) {
	b := newBench(t)
	readKeys := func(owner string) []string { return append(rwKeys(owner), timeoutKey(owner, 1)) }
	b.write("a:1", 20000, 1)
	b.tryRead("a:2", 20000, 1, "a:1:write")
	b.fill()
	b.wantOOM(script{"rw_read_acquire", readKeys("a:3"), []any{"a:3", 20000, 1, 1, "a:1:write"}})
	b.wantTTL(lockKey, 20000)
	b.write("a:1", 40000, 2)
	b.tryRead("a:2", 40000, 2, "a:1:write")
	b.want(n(1), "renew", []string{lockKey}, "a:1:write", 60000, 3)
	b.die("a:2")
	b.renewRead("a:2", 60000, 3)
	b.wantHash(fields{"mode": "write", "a:1:write": "3", "a:2": "3"})
	b.wantTTL(lockKey, 60000)
	b.wantTTL(timeoutKey("a:2", 1), 60000)
	b.leave("a:1:write")
	b.wantHash(fields{"mode": "read", "a:2": "3"})
	b.die("a:2")
	beside := writerKind().acquire("w:1", 20000, 1)
	beside.keys, beside.args[5] = append(beside.keys, timeoutKeys([]any{"a:2", "3"})...), ""
	b.wantOOM(beside)
	b.wantHash(fields{"mode": "read", "a:2": "3"})
	b.leave("a:2")
	b.wantHash(fields{})
	b.wantNothingStays()
}
