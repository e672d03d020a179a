package redishold

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
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
	b := New(&fakeConn{}, &Options{Prefix: "app:"})
	beside := testReader("orders")
	beside.Beside, beside.Holds, beside.Tokens = testUUID+":9", 2, 64
	info := ServerInfo{Cluster: true, ShardedPS: true}
	for _, c := range []struct {
		name, script string
		call         func(form, place) Call
		source       bool
		keys, args   []string
	}{
		{
			"read", "rw_read_acquire", func(f form, p place) Call { return f.acquire(room{}, p, testReader("orders"), "ASK", nil) }, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o, "COUNTER", "{app:orders}:" + o + ":rwlock_timeout:1"},
			[]string{o, "30000", "1", "1", "", "ASK"},
		},
		{
			"read beside", "rw_read_acquire", func(f form, p place) Call { return f.acquire(room{}, p, beside, "ASK", nil) }, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o, "COUNTER", "{app:orders}:" + o + ":rwlock_timeout:1"},
			[]string{o, "30000", "2", "64", testUUID + ":9:write", "ASK"},
		},
		{
			"write", "rw_write_acquire", func(f form, p place) Call { return f.acquire(room{}, p, testWriter("orders"), "ASK", nil) }, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o, "COUNTER"},
			[]string{o, "30000", "1", "1", "{app:orders}", "ASK"},
		},
		{
			"renew reader", "rw_read_renew", func(f form, p place) Call { return f.renew(room{}, p, testReader("orders")) }, false,
			[]string{"app:orders"},
			[]string{o, "30000", "1", "{app:orders}:" + o + ":rwlock_timeout:1"},
		},
		{
			"renew writer", "renew", func(f form, p place) Call { return f.renew(room{}, p, testWriter("orders")) }, false,
			[]string{"app:orders"},
			[]string{o + ":write", "30000", "1"},
		},
		{
			"release reader", "rw_release", func(f form, p place) Call { return f.release(room{}, p, testReader("orders"), info.publishWith()) }, false,
			[]string{"app:orders"},
			[]string{o, "{app:orders}", "redisson_rwlock:{app:orders}", "", "", "", "PUBLISH", "SPUBLISH"},
		},
		{
			"abandon writer", "rw_release", func(f form, p place) Call {
				return f.abandon(p, testWriter("orders"), info.publishWith(), time.Minute)
			}, true,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o},
			[]string{o + ":write", "{app:orders}", "redisson_rwlock:{app:orders}", "", "abandoned", "60000", "PUBLISH", "SPUBLISH"},
		},
		{
			"break writer", "rw_release", func(_ form, p place) Call {
				h := admin.Holder{Owner: o + ":write", Holds: 2, Remaining: -time.Millisecond}
				return b.readWrite().breakHold(p, h, "ops", []string{"PUBLISH"})
			}, false,
			[]string{"app:orders", "app:holdfast:gone:{app:orders}:" + o},
			[]string{o + ":write", "{app:orders}", "redisson_rwlock:{app:orders}", "2", "forced: ops", "10000", "PUBLISH"},
		},
	} {
		p := b.layout.place("orders")
		call := c.call(b.form(testReader("orders")), p)
		for i, key := range c.keys {
			if key == "COUNTER" {
				c.keys[i] = p.counter
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
			if slotOf(key) != slotOf(p.lock) {
				t.Errorf("%s: key %q is not in the slot of %q", c.name, key, p.lock)
			}
		}
	}
}

func TestReadWriteKeysOfNamesWithBraces(t *testing.T) {
	p := New(&fakeConn{}, nil).layout.place("{t1}:orders")
	if got, want := readTimeout(p, "a:1"), "{t1}:orders:a:1:rwlock_timeout:1"; got != want {
		t.Errorf("timeout key: got %q, want %q", got, want)
	}
	if got, want := rwChannel(p), "redisson_rwlock:{t1}:orders"; got != want {
		t.Errorf("channel: got %q, want %q", got, want)
	}
}

func TestReadWriteTryProbesBothKinds(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, nil)
	mustTry(t, b, testReader("orders"))
	mustTry(t, b, testWriter("orders"))
	want := []string{"probe", "rw_probe", "rw_read_acquire", "register", "rw_write_acquire"}
	if got := conn.scripts(); !slices.Equal(got, want) {
		t.Fatalf("scripts: got %q, want %q", got, want)
	}
	if keys := conn.sent[1][0].Keys; len(keys) != 4 {
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

func TestReadWriteInspect(t *testing.T) {
	otherKind := []any{int64(-1)}
	inspect := func(value any) ([]admin.Holder, error) {
		conn := &fakeConn{answer: func(c Call) Result {
			switch c.Script.Name() {
			case "inspect":
				return Result{Value: otherKind}
			case "rw_inspect":
				return Result{Value: value}
			}
			return Result{}
		}}
		return New(conn, nil).Inspect(t.Context(), "orders")
	}
	list := func(holds ...any) any { return []any{int64(1), holds} }

	for _, c := range []struct {
		name  string
		value any
		want  []admin.Holder
	}{
		{"free meanwhile", []any{int64(0)}, nil},
		{"only dead readers", list(), nil},
		{"a writer without TTL", list("a:1:write", "2", int64(-1)), []admin.Holder{{Owner: "a:1", Holds: 2, Remaining: -time.Millisecond}}},
		{"a writer and its reader", list("a:1:write", "1", int64(30), "a:2", "1", int64(20)), []admin.Holder{
			{Owner: "a:1", Holds: 1, Remaining: 30 * time.Millisecond}, {Owner: "a:2", Holds: 1, Remaining: 20 * time.Millisecond},
		}},
		{"both sides of a thread", list("a:1", "1", int64(20), "a:1:write", "1", int64(30)), []admin.Holder{
			{Owner: "a:1", Holds: 1, Remaining: 20 * time.Millisecond}, {Owner: "a:1:write", Holds: 1, Remaining: 30 * time.Millisecond},
		}},
	} {
		got, err := inspect(c.value)
		for i := range got {
			got[i].Note = ""
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v and error %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, value := range []any{otherKind, list("a:1", "text", int64(20))} {
		if got, err := inspect(value); !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("%v: got %+v and error %v, want ErrMismatch", value, got, err)
		}
	}
	for _, value := range []any{nil, "", []any{}, []any{"1"}, []any{int64(1)}, []any{int64(2), []any{}}, []any{int64(1), "a"}, list("a:1", "1"), list("a:1", int64(1), int64(20)), list("a:1", "1", "20")} {
		if got, err := inspect(value); err == nil || errors.Is(err, driver.ErrMismatch) {
			t.Errorf("%v: got %+v and error %v, want a complaint about the reply", value, got, err)
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
