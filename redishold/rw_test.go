package redishold

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

func testWriter(name string) driver.Claim {
	c := testClaim(name)
	c.ReadWrite = true
	return c
}

func testReader(name string) driver.Claim {
	c := testWriter(name)
	c.Mode = driver.Shared
	return c
}

// TestReadWriteCalls checks what is sent for each operation of each side.
func TestReadWriteCalls(t *testing.T) {
	const o = testUUID + ":1"
	b := New(&fakeConn{}, &Options{KeyPrefix: "app:"})
	beside := testReader("orders")
	beside.Beside, beside.Count, beside.Tokens = testUUID+":9", 2, 64
	info := ServerInfo{Cluster: true, ShardedPS: true}
	for _, c := range []struct {
		name, script string
		call         func(kinds.Form, layout.Place) Call
		source       bool
		keys, args   []string
	}{
		{
			"read", "rw_read_acquire", func(f kinds.Form, p layout.Place) Call {
				return f.Acquire(kinds.Room{}, p, testReader("orders"), "ASK", nil)
			}, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o, "COUNTER", "{app:orders}:" + o + ":rwlock_timeout:1"},
			[]string{o, "30000", "1", "1", "", "ASK"},
		},
		{
			"read beside", "rw_read_acquire", func(f kinds.Form, p layout.Place) Call { return f.Acquire(kinds.Room{}, p, beside, "ASK", nil) }, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o, "COUNTER", "{app:orders}:" + o + ":rwlock_timeout:1"},
			[]string{o, "30000", "2", "64", testUUID + ":9:write", "ASK"},
		},
		{
			"write", "rw_write_acquire", func(f kinds.Form, p layout.Place) Call {
				return f.Acquire(kinds.Room{}, p, testWriter("orders"), "ASK", nil)
			}, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o, "COUNTER"},
			[]string{o, "30000", "1", "1", "{app:orders}", "ASK"},
		},
		{
			"renew reader", "rw_read_renew", func(f kinds.Form, p layout.Place) Call { return f.Renew(kinds.Room{}, p, testReader("orders")) }, false,
			[]string{"app:orders", "{app:orders}:" + o + ":rwlock_timeout:1"},
			[]string{o, "30000", "1"},
		},
		{
			"renew writer", "renew", func(f kinds.Form, p layout.Place) Call { return f.Renew(kinds.Room{}, p, testWriter("orders")) }, false,
			[]string{"app:orders"},
			[]string{o + ":write", "30000", "1"},
		},
		{
			"release reader", "rw_release", func(f kinds.Form, p layout.Place) Call {
				return f.Release(kinds.Room{}, p, testReader("orders"), wire.PublishWith(info))
			}, false,
			[]string{"app:orders", "{app:orders}:" + o + ":rwlock_timeout:1"},
			[]string{o, "{app:orders}", "redisson_rwlock:{app:orders}", "", "", "", "PUBLISH", "SPUBLISH"},
		},
		{
			"abandon writer", "rw_release", func(f kinds.Form, p layout.Place) Call {
				return f.Abandon(p, testWriter("orders"), wire.PublishWith(info), time.Minute)
			}, true,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o},
			[]string{o + ":write", "{app:orders}", "redisson_rwlock:{app:orders}", "", "abandoned", "60000", "PUBLISH", "SPUBLISH"},
		},
		{
			"break writer", "rw_release", func(_ kinds.Form, p layout.Place) Call {
				h := admin.Holder{Owner: o + ":write", Holds: 2, Remaining: -time.Millisecond}
				return b.forms.readWrite.Break(p, h, "ops", "10000", []string{"PUBLISH"})
			}, true,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o},
			[]string{o + ":write", "{app:orders}", "redisson_rwlock:{app:orders}", "2", "forced: ops", "10000", "PUBLISH"},
		},
	} {
		p := b.layout.Place("orders")
		call := c.call(b.forms.of(testReader("orders")), p)
		for i, key := range c.keys {
			if key == "COUNTER" {
				c.keys[i] = p.Counter
			}
		}
		if call.Script.Name() != c.script || call.Source != c.source {
			t.Errorf("%s: got script %s, source %v, want %s, %v", c.name, call.Script.Name(), call.Source, c.script, c.source)
		}
		if !slices.Equal(call.Keys, c.keys) {
			t.Errorf("%s: KEYS: got %q, want %q", c.name, call.Keys, c.keys)
		}
		if !slices.Equal(call.Args, c.args) {
			t.Errorf("%s: ARGV: got %q, want %q", c.name, call.Args, c.args)
		}
		for _, key := range call.Keys {
			if layout.SlotOf(key) != layout.SlotOf(p.Lock) {
				t.Errorf("%s: key %q is not in the slot of %q", c.name, key, p.Lock)
			}
		}
	}
}

func TestReadWriteKeysOfNamesWithBraces(t *testing.T) {
	p := New(&fakeConn{}, nil).layout.Place("{t1}:orders")
	if got, want := layout.ReadTimeout(p, "a:1", 1), "{t1}:orders:a:1:rwlock_timeout:1"; got != want {
		t.Errorf("timeout key: got %q, want %q", got, want)
	}
	if got, want := layout.ReadWriteChannel(p), "redisson_rwlock:{t1}:orders"; got != want {
		t.Errorf("channel: got %q, want %q", got, want)
	}
}

func TestReadWriteIsProbedOnce(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, nil)
	mustTry(t, b, testReader("orders"))
	mustTry(t, b, testWriter("orders"))
	want := []string{"probe", "rw_read_acquire", "register", "rw_write_acquire"}
	if got := conn.scripts(); !slices.Equal(got, want) {
		t.Fatalf("scripts: got %q, want %q", got, want)
	}
	if keys := conn.sent[0][0].Keys; len(keys) != 4 {
		t.Fatalf("KEYS of the probe: got %q, want the timeout key too", keys)
	}
}

func TestReadWriteBusyNamesThePerson(t *testing.T) {
	writer := "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57:write"
	b := New(&fakeConn{answer: replying("rw_read_acquire", []any{int64(0), int64(20000), writer, "1"})}, nil)
	o := mustTry(t, b, testReader("orders"))
	if o.Granted || o.Holder != "Redisson client 71b96ce8… thread 57" || o.RetryAfter != 20*time.Second {
		t.Fatalf("got %+v, want busy for 20s, held by thread 57", o)
	}
}

func TestReadWriteLook(t *testing.T) {
	const one, two = testUUID + ":1", testUUID + ":2"
	look := func(holds ...any) (admin.Record, []admin.Holder, error) {
		conn := &fakeConn{answer: answering(map[string]func(Call) Result{
			"list_look": func(Call) Result {
				return Result{Value: []any{[]any{"readers", ints(40), holds, ints(len(holds) / 3), ints(0), ints(-1)}}}
			},
			"client": unregistered,
		})}
		records, err := New(conn, nil).Get(t.Context(), "orders")
		var holders []admin.Holder
		for _, h := range records[0].Holds {
			h.Note = ""
			holders = append(holders, h.Holder)
		}
		return records[0], holders, err
	}
	for _, c := range []struct {
		name  string
		holds []any
		want  []admin.Holder
	}{
		{"only dead readers", nil, nil},
		{"a writer without TTL", []any{one + ":write", "2", ints(-1)}, []admin.Holder{{Owner: one, Holds: 2, Remaining: -time.Millisecond}}},
		{"a writer and its reader", []any{one + ":write", "1", ints(30), two, "1", ints(20)}, []admin.Holder{
			{Owner: one, Holds: 1, Remaining: 30 * time.Millisecond}, {Owner: two, Holds: 1, Remaining: 20 * time.Millisecond},
		}},
		{"both sides of a thread", []any{one, "1", ints(20), one + ":write", "1", ints(30)}, []admin.Holder{
			{Owner: one, Holds: 1, Remaining: 20 * time.Millisecond}, {Owner: one + ":write", Holds: 1, Remaining: 30 * time.Millisecond},
		}},
	} {
		if r, got, err := look(c.holds...); err != nil || r.Kind != admin.KindReadWrite || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v and error %v, want %+v", c.name, got, err, c.want)
		}
	}
	if r, _, err := look(one, "text", ints(20)); err != nil || r.Kind != admin.KindOther {
		t.Errorf("no hold count: got %+v and error %v, want another kind", r, err)
	}
	for _, holds := range [][]any{{one, "1"}, {one, ints(1), ints(20)}, {one, "1", "20"}} {
		if r, _, err := look(holds...); err == nil {
			t.Errorf("%v: got %+v, want a complaint about the reply", holds, r)
		}
	}
}

func TestReadWriteBreak(t *testing.T) {
	none, ended := int64(0), int64(1)
	h := admin.Holder{Owner: testUUID + ":1", Holds: 1, Remaining: time.Second}
	for _, c := range []struct {
		name    string
		first   any
		second  any
		scripts []string
		err     error
	}{
		{"a plain lock", ended, none, []string{"break", "tell", "fair_wake"}, nil},
		{"a read-write lock", none, ended, []string{"break", "rw_release", "tell", "fair_wake"}, nil},
		{"gone", none, none, []string{"break", "rw_release"}, driver.ErrGone},
	} {
		conn := &fakeConn{answer: func(call Call) Result {
			if call.Script.Name() == "break" {
				return Result{Value: c.first}
			}
			return Result{Value: c.second}
		}}
		if err := New(conn, nil).ForceUnlock(t.Context(), "orders", h, "why"); !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.err)
		}
		if got := conn.scripts(); !slices.Equal(got, c.scripts) {
			t.Errorf("%s: scripts: got %q, want %q", c.name, got, c.scripts)
		}
	}
	conn := &fakeConn{answer: func(call Call) Result {
		if call.Script.Name() == "break" {
			return Result{Value: none}
		}
		return Result{Err: &ReplyError{Text: "READONLY no"}}
	}}
	wantErrors(t, "on a replica", New(conn, nil).ForceUnlock(t.Context(), "orders", h, "why"), driver.ErrNotExecuted)
}
