package scripttest

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// What a busy acquire says of the holder, in the call itself.

const registrations = "holdfast:client:"

// asking are the acquires for z:1, which asks for the holder of the lock, each with a holder that is
// there before.
func asking(b *bench, owner, begin string) map[string]func() any {
	all := map[string]func() any{}
	add := func(what string, first, second script, at int) {
		if at < 0 {
			second.args = append(second.args, begin)
		} else {
			second.args[at] = begin
		}
		all[what] = func() any {
			if first.name == "semaphore_acquire" {
				b.String("SET", registrations+hex.EncodeToString([]byte(first.args[0].(string)[:10])), strings.Split(owner, ":")[0])
			}
			b.call(first)
			return b.call(second)
		}
	}
	for _, k := range kinds() {
		holder, second, at := k, k.acquire("z:1", 20000, 1), -1 // where a script has that argument; at the end of most
		switch k.name {
		case "reader":
			holder = writerKind()
		case "fair":
			second.args[4], at = presence, 7 // one that waits
		case "permit":
			at = 5
		}
		add(k.name, holder.acquire(owner, 20000, 1), second, at)
	}
	add("writer beside a reader", readerKind().acquire(owner, 20000, 1), writerKind().acquire("z:1", 20000, 1), -1)
	add("several", mutexKind().acquire(owner, 20000, 1), script{"acquire_all", threeKeys, []any{"z:1", 20000, 1, 1}}, -1)
	several := all["several"]
	all["several"] = func() any { return several().([]any)[0] }
	return all
}

// introducedAs returns what the last element of a busy answer says.
func introducedAs(t *testing.T, what string, reply any) []any {
	t.Helper()
	list, ok := reply.([]any)
	if !ok || len(list) < 4 || list[0] != n(0) {
		t.Fatalf("%s: got %v, want busy", what, reply)
	}
	said, _ := list[len(list)-1].([]any)
	return said
}

func TestBusyAcquireIntroducesTheHolder(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		text, begin string
		want        bool
	}{{`{"note":"ci-7"}`, registrations, true}, {"", registrations, true}, {`{"note":"ci-7"}`, "", false}} {
		for what, acquire := range asking(b, "a:1", c.begin) {
			b.String("FLUSHALL")
			if c.text != "" {
				b.String("SET", registrations+"a", c.text)
			}
			said := introducedAs(t, what, acquire())
			if !c.want {
				if said != nil {
					t.Errorf("%s: got %v, and nobody asked", what, said)
				}
				continue
			}
			if len(said) < 2 || said[0] != any(c.text) || len(said[1].(string)) != 13 {
				t.Errorf("%s: got %v, want %q and the time in ms", what, said, c.text)
			}
			if permit := what == "permit"; permit && (len(said) != 3 || said[2] != any("a")) || !permit && len(said) != 2 {
				t.Errorf("%s: got %v, want the client of a permit, and of nothing else", what, said)
			}
		}
	}
}

// Where the registration may not be read, or is no text, the answer is as if nobody
// had asked: it is no reason to fail.
func TestBusyAcquireWithoutAnIntroduction(t *testing.T) {
	b := newBench(t)
	rights := []string{"ACL", "SETUSER", "narrow", "on", "nopass", "+@all", "&*", "~" + lockKey + "*", "~{" + lockKey + "*", "~redisson_*", "~holdfast:gone:*", "~holdfast:token:*", "~holdfast:fair:*", "~holdfast:ts:*", "~" + jobs + "*", "~{" + jobs + "*"}
	b.String(rights...)
	narrow := &bench{Server: b.Server, t: t, client: b.login("narrow", "x")}
	for what := range asking(b, "a:1", registrations) {
		for sort, user := range map[string]*bench{"a list": b, "no right": narrow} {
			b.String("FLUSHALL")
			if sort == "a list" {
				b.Int("RPUSH", registrations+"a", "x")
			}
			if said := introducedAs(t, what, asking(user, "a:1", registrations)[what]()); said != nil {
				t.Errorf("%s, %s: got %v, want nothing", what, sort, said)
			}
		}
	}
}

// The first busy try names the holder of the lock, and is one script call.
func TestFirstBusyTryIsOneCall(t *testing.T) {
	server, holder := startStore(t, nil)
	for _, kind := range []string{"mutex", "fair", "write", "permit"} {
		held := kindClaim(kind, "stock:"+kind, "1")
		mustTry(t, holder, held)
		b := redishold.New(connect(t, server.Addr(), "", ""), nil)
		other := kindClaim(kind, "warm:"+kind, "2")
		other.Client = "00000000-2746-4f0e-9d4a-0f6f0b7f2c11"
		other.Owner = other.Client + ":2"
		mustTry(t, b, other) // proves rights and registers
		before := scriptCalls(server)
		other.Name = held.Name
		o := mustTry(t, b, other)
		if o.Granted || o.Holder != "ci@host:4121" {
			t.Errorf("%s: got %+v, want busy, held by ci@host:4121", kind, o)
		}
		if got := scriptCalls(server) - before; got != 1 {
			t.Errorf("%s: %d script calls, want 1", kind, got)
		}
	}
}

// A grant of a semaphore says how many permits there are, where the claim has
// another number.
func TestGrantSaysHowManyPermits(t *testing.T) {
	_, b := startStore(t, nil)
	got := map[string]int{}
	for number, permits := range map[string]int{"1": 5, "2": 5, "3": 3, "4": 9} {
		if number != "1" {
			mustTry(t, b, permitOf("1", 5))
		}
		got[number] = mustGrant(t, b, permitOf(number, permits)).Permits
	}
	if want := map[string]int{"1": 0, "2": 0, "3": 5, "4": 5}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func kindClaim(kind, name, number string) driver.Claim {
	c := claim(name, number)
	switch kind {
	case "fair":
		c.Fair = true
	case "write":
		c.ReadWrite = true
	case "read":
		c.ReadWrite, c.Mode = true, driver.Shared
	case "permit":
		c.Mode, c.Permits = driver.Permit, 1
	}
	return c
}

func permitOf(number string, permits int) driver.Claim {
	c := kindClaim("permit", "pool", number)
	c.Permits = permits
	return c
}

// scriptCalls is how many scripts the server was asked to run.
func scriptCalls(server *redistest.Server) int64 {
	stats := server.CommandStats()
	return stats["eval"] + stats["evalsha"]
}
