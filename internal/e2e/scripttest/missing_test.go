package scripttest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Scripts of a user who lacks one of their commands. Whatever a script does then, no key
// without a TTL stays, and a lock is there as a whole or not at all.

// lacking is what a script did for a user without a command.
type lacking struct {
	script
	command, state string
	before, after  fields // the lock; a string is the field ""
	reply          any
	err            error
}

func (l lacking) String() string {
	return fmt.Sprintf("%s %v without %s, %s: the lock was %v, is %v; reply %v, error %v", l.name, l.args[0], l.command, l.state, l.before, l.after, l.reply, l.err)
}

// withoutEach takes every command from every script in turn, and runs the script in every
// state of the lock.
func (b *bench) withoutEach(lock string, scripts []script, states map[string]func(), check func(l lacking)) {
	b.t.Helper()
	for _, s := range scripts {
		for _, command := range commandsOf(b.t, s.name) {
			b.String("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-"+strings.ToLower(command))
			limited := b.login("limited", "secret")
			for state, setup := range states {
				b.String("FLUSHALL")
				setup()
				l := lacking{script: s, command: command, state: state, before: b.fieldsOf(lock)}
				l.reply, l.err = eval(b.t, limited, s.name, s.keys, s.args...)
				l.after = b.fieldsOf(lock)
				if stay := b.KeysWithoutTTL(func(key string) bool { return key == counterKey || key == jobs || key == jobsPermits || key == start }); len(stay) > 0 {
					b.t.Errorf("%s: keys without TTL %q", l, stay)
				}
				check(l)
			}
			_ = limited.Close()
		}
	}
}

// fieldsOf is what a hash or a string has.
func (b *bench) fieldsOf(key string) fields {
	b.t.Helper()
	if b.String("TYPE", key) == "hash" {
		return b.Map("HGETALL", key)
	}
	if text, ok := b.Do("GET", key).(string); ok {
		return fields{"": text}
	}
	return fields{}
}

// ends reports whether l is a script that ends a hold.
func (l lacking) ends() bool {
	return !strings.Contains(l.name, "acquire") && !strings.Contains(l.name, "renew")
}

func TestMissingRights(t *testing.T) {
	b := newBench(t)
	k := mutexKind()
	scripts := []script{
		k.acquire("a:1", 30000, 2), k.renew("a:1", 30000, 2), k.release("a:1"), k.abandon("a:1"), k.force("a:1", 1),
		{"acquire_all", threeKeys, []any{"a:1", 30000, 2, 1}},
		{"renew_all", threeKeys[:1], []any{"a:1", 30000, 2}},
		{"release_all", threeKeys[:1], []any{"a:1", channel, "PUBLISH"}},
	}
	states := map[string]func(){
		"free":      func() {},
		"own":       func() { b.grant("a:1", 20000, 1, 1) },
		"another's": func() { b.grant("b:1", 20000, 1, 1) },
	}
	b.withoutEach(lockKey, scripts, states, func(l lacking) {
		if strings.HasSuffix(l.name, "_all") {
			if l.err != nil {
				t.Errorf("%s: what is refused of one lock must not be an error of all", l)
				return
			}
			if list, ok := l.reply.([]any); ok {
				l.reply = list[0]
			}
		}
		granted := maps.Equal(l.after, fields{"a:1": "2"})
		switch {
		case maps.Equal(l.before, l.after), len(l.after) == 0 && l.state == "own" && l.ends():
		case granted && l.err == nil && l.state != "another's":
		case granted && l.state == "own": // its own, counted, no new tokens
		default:
			t.Error(l)
		}
		if l.command == "PUBLISH" && l.ends() && l.state == "own" && l.reply != n(-1) {
			t.Errorf("%s: want -1", l)
		}
	})
}

// Where even what would take a lock away again is refused, none is left without
// a TTL.
func TestMissingRightsToExpireAndDelete(t *testing.T) {
	b := newBench(t)
	b.String("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-pexpire", "-del", "-hdel", "-unlink", "-expire")
	client := b.login("limited", "secret")
	for _, k := range []kind{mutexKind(), fairKind(), readerKind(), writerKind()} {
		b.String("FLUSHALL")
		s := k.acquire("a:1", 30000, 1)
		reply, err := eval(t, client, s.name, s.keys, s.args...)
		if err == nil || !strings.Contains(err.Error(), "permission") && !strings.Contains(err.Error(), "can't run this command") {
			t.Errorf("%s: got %v and error %v, want the server's words", k.name, reply, err)
		}
		if got := b.Int("EXISTS", lockKey); got != 0 {
			t.Errorf("%s: the lock stays", k.name)
		}
		b.wantNothingStays()
	}
}

func TestFairMissingRights(t *testing.T) {
	b := newBench(t)
	scripts := []script{
		{"fair_acquire", fairKeys("a:1"), fairArgs("a:1")},
		{"fair_release", append(slices.Clone(fairReleaseKeys), fairMark("a:1")), []any{"a:1", 30000, channel + ":", presence, "PUBLISH"}},
	}
	states := map[string]func(){
		"free":   func() {},
		"own":    func() { b.fairGrant("a:1"); b.fairBusy("c:1") },
		"queued": func() { b.fairGrant("b:1"); b.fairBusy("a:1", "c:1") },
		"turn":   func() { b.fairGrant("b:1"); b.fairBusy("d:1", "a:1"); b.vanish("d:1"); b.Int("DEL", lockKey) },
		"new":    func() { b.fairGrant("b:1") },
	}
	b.withoutEach(lockKey, scripts, states, func(l lacking) {
		switch {
		case maps.Equal(l.before, l.after), l.ends() && l.state == "own" && len(l.after) == 0:
		case l.ends() && l.state == "own" && maps.Equal(l.after, fields{"c:1": "1"}):
		case !l.ends() && (l.state == "free" || l.state == "turn") && maps.Equal(l.after, fields{"a:1": "1"}):
		default:
			t.Error(l)
		}
		if l.ends() && l.command == "PUBLISH" && l.state == "own" && l.reply != n(-1) {
			t.Errorf("%s: want released, not published", l)
		}
	})
}

func TestReadWriteMissingRights(t *testing.T) {
	b := newBench(t)
	r, w := readerKind(), writerKind()
	scripts := []script{
		r.acquire("a:1", 30000, 1), w.acquire("a:1", 30000, 1), r.renew("a:1", 30000, 1),
		r.release("a:1"), w.release("a:1"), r.force("a:1", 1),
	}
	states := map[string]func(){
		"free":              func() {},
		"read by it":        func() { b.read("a:1", 20000, 1) },
		"read by both":      func() { b.read("a:1", 20000, 1); b.read("b:1", 20000, 1) },
		"read by another":   func() { b.read("b:1", 20000, 1) },
		"read by the dead":  func() { b.read("d:1", 20000, 1); b.die("d:1") },
		"written by it":     func() { b.write("a:1", 20000, 1) },
		"downgraded by it":  func() { b.write("a:1", 20000, 1); b.tryRead("b:1", 20000, 1, "a:1:write") },
		"written by others": func() { b.write("b:1", 20000, 1) },
	}
	b.withoutEach(lockKey, scripts, states, b.checkRW)
}

// checkRW checks that the lock is one that the rules allow, with a:1 as the only one who
// did something.
func (b *bench) checkRW(l lacking) {
	b.t.Helper()
	for _, other := range []string{"b:1", "b:1:write"} {
		if l.before[other] != l.after[other] {
			b.t.Errorf("%s: %s has changed", l, other)
		}
	}
	if l.after["b:1"] != "" && b.Int("EXISTS", timeoutKey("b:1", 1)) != 1 {
		b.t.Errorf("%s: another reader lost its timeout key", l)
	}
	writers := len(l.after["a:1:write"]) + len(l.after["b:1:write"])
	switch l.after["mode"] {
	case "":
		if len(l.after) != 0 {
			b.t.Errorf("%s: a lock without mode", l)
		}
	case "write":
		if writers != 1 {
			b.t.Errorf("%s: %d writers", l, writers)
		}
		if l.after["a:1"] != "" {
			b.t.Errorf("%s: a reader beside a writer", l)
		}
	}
	if l.after["a:1"] != "" && l.before["a:1"] == "" && b.Int("EXISTS", timeoutKey("a:1", 1)) != 1 {
		b.t.Errorf("%s: a read hold without a timeout key", l)
	}
}

// No permit is lost and none is made: the counter and the permits that are out make the
// same sum.
func TestSemaphoreMissingRights(t *testing.T) {
	b := newBench(t)
	keys := []string{jobs, jobsPermits}
	scripts := []script{
		{"semaphore_acquire", jobsKeys, []any{idA, 30000, 2, 1, jobsChannel, "PUBLISH"}},
		{"semaphore_renew", keys[1:], []any{idA, 30000}},
		{"semaphore_release", keys, []any{idA, jobsChannel, "PUBLISH"}},
		{"semaphore_abandon", jobsKeys[:3], []any{idA, 30000, jobsChannel, "PUBLISH"}},
		{"semaphore_force", jobsKeys[:3], []any{idA, "why", 30000, jobsChannel, "PUBLISH"}},
		{"semaphore_resize", keys, []any{2, jobsChannel, "PUBLISH"}},
	}
	states := map[string]func(){
		"free":    func() { b.String("SET", jobs, "2") },
		"own":     func() { b.grantPermit(idA, 20000, 2) },
		"expired": func() { b.grantPermit(idA, 20000, 2); b.grantPermit(idB, 20000, 2); b.out(idA, -5); b.out(idB, -5) },
		"short":   func() { b.String("SET", jobs, "2", "PX", "60000") },
	}
	b.withoutEach(jobs, scripts, states, func(l lacking) {
		free, _ := strconv.ParseInt(l.after[""], 10, 64)
		if out := b.Int("ZCARD", jobsPermits); free+out != 2 {
			t.Errorf("%s: %d free and %d out, want 2 together", l, free, out)
		}
		if l.command == "PUBLISH" && l.err != nil {
			t.Errorf("%s: want it done all the same", l)
		}
	})
}

func TestPlainMissingRights(t *testing.T) { wantNoHalves(t, plainKind()) }

func TestTimestampMissingRights(t *testing.T) { wantNoHalves(t, stampKind()) }

func wantNoHalves(t *testing.T, k kind) {
	t.Helper()
	b := newBench(t)
	scripts := []script{k.acquire("a:1", 30000, 1), k.renew("a:1", 30000, 1), k.release("a:1"), k.abandon("a:1"), k.force("a:1", 1)}
	states := map[string]func(){
		"free":      func() {},
		"own":       func() { b.call(k.acquire("a:1", 20000, 1)) },
		"another's": func() { b.call(k.acquire("b:1", 20000, 1)) },
	}
	b.withoutEach(lockKey, scripts, states, func(l lacking) {
		if !reflect.DeepEqual(l.before, l.after) && (l.state == "another's" || l.state == "free" && l.err != nil) {
			t.Error(l)
		}
	})
}

// TestSemaphoreCallsMissingRights: a call of a counter is done and marked, or neither. Then
// it is repeated with all rights, and counts once.
func TestSemaphoreCallsMissingRights(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		script
		before, after string // "" is no key
	}{
		{script{"permits_set", plainKeys, []any{7, 60000, jobsChannel, "PUBLISH"}}, "", "7"},
		{script{"permits_take", plainKeys, []any{2, 60000, "0"}}, "5", "3"},
		{script{"permits_give", plainKeys, []any{2, 60000, jobsChannel, "PUBLISH"}}, "5", "7"},
		{script{"permits_drain", plainKeys, []any{60000}}, "5", "0"},
		{script{"permits_undo", plainKeys, []any{2, 60000, jobsChannel, "PUBLISH"}}, "5", "7"},
		{script{"latch_set", latchKeys("a"), []any{7, 60000, startChannel, "PUBLISH"}}, "", "7"},
		{script{"latch_down", latchKeys("a"), []any{60000, startChannel, "PUBLISH"}}, "5", "4"},
		{script{"latch_down", latchKeys("a"), []any{60000, startChannel, "PUBLISH"}}, "1", ""},
	} {
		key := c.keys[0]
		states := map[string]func(){"before": func() {
			if c.before != "" {
				b.String("SET", key, c.before)
			}
			if c.name == "permits_undo" {
				b.String("SET", jobsCall, "1", "PX", "60000")
			}
		}}
		b.withoutEach(key, []script{c.script}, states, func(l lacking) {
			if l.err != nil && c.before != "" && key == jobs && l.after[""] != c.before {
				t.Error(l)
			}
			b.call(c.script)
			if got := b.fieldsOf(key)[""]; got != c.after {
				t.Errorf("%s; then repeated: got %q, want %q", l, got, c.after)
			}
		})
	}
}
