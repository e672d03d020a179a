package redishold

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
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

// A call that sets a tombstone has the source of its script, because it is rare: after a link that
// hung is back, a reply NOSCRIPT would cost another round trip.
func TestTombstonesAreSentAsSource(t *testing.T) {
	for _, o := range []Layout{Redisson, Plain, Timestamp} {
		b := New(&fakeConn{}, &Options{Layout: o})
		for kind := range uint8(5) {
			c := fuzzClaim(kind, "orders")
			f, k := b.forms.of(c), b.layout.Keys("orders")
			if !f.Abandon(k, c, nil, time.Minute).Source || f.Release(kinds.Buffers{}, k, c, nil).Source {
				t.Errorf("%s, kind %d: want the source of what abandons, and of no release", o, kind)
			}
		}
		h := admin.Holder{Owner: testUUID + ":1", Holds: 1}
		if call := b.forms.readWrite.Force(b.layout.Keys("orders"), h, "ops", "10000", nil); o == Redisson && !call.Source {
			t.Error("want the source of what breaks")
		}
	}
}

func TestReadWriteBusyNamesThePerson(t *testing.T) {
	writer := "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57:write"
	b := New(&fakeConn{answer: replying("rw_read_acquire", []any{int64(0), int64(20000), writer, "1"})}, nil)
	once := testReader("orders")
	once.NoQueue = true
	o := mustTry(t, b, once)
	if o.Granted || o.Holder != "Redisson client 71b96ce8… thread 57" || o.RetryAfter != 20*time.Second {
		t.Fatalf("got %+v, want busy for 20s, held by thread 57", o)
	}
}

func TestReadWriteLook(t *testing.T) {
	const one, two = testUUID + ":1", testUUID + ":2"
	leases := func(pttls ...any) Result { return Result{Value: pttls} }
	look := func(answer Result, holds ...any) (admin.Record, []admin.Holder, error) {
		conn := &fakeConn{answer: answering(map[string]func(Call) Result{
			"list_redisson": func(Call) Result {
				return Result{Value: []any{[]any{"readers", ints(40), holds, ints(len(holds)/2 - 1), ints(0), ints(-1)}}}
			},
			"list_leases": func(Call) Result { return answer },
			"client":      unregistered,
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
		name   string
		leases Result
		holds  []any
		want   []admin.Holder
	}{
		{"a mode alone", leases(), nil, nil},
		{"only dead readers", leases(ints(-2), ints(-2)), []any{one, "1", two, "1"}, nil},
		{"a reader without holds", leases(), []any{one, "0"}, nil},
		{"a writer", leases(), []any{one + ":write", "2"}, []admin.Holder{{Owner: one, Holds: 2, Remaining: 40 * time.Millisecond}}},
		{"a writer and its reader", leases(ints(20)), []any{one + ":write", "1", two, "1"}, []admin.Holder{
			{Owner: one, Holds: 1, Remaining: 40 * time.Millisecond}, {Owner: two, Holds: 1, Remaining: 20 * time.Millisecond},
		}},
		{"both sides of a thread", leases(ints(20)), []any{one, "1", one + ":write", "1"}, []admin.Holder{
			{Owner: one, Holds: 1, Remaining: 20 * time.Millisecond}, {Owner: one + ":write", Holds: 1, Remaining: 40 * time.Millisecond},
		}},
		{"a dead reader and its writer", leases(ints(-2)), []any{one, "1", one + ":write", "1"}, []admin.Holder{
			{Owner: one, Holds: 1, Remaining: 40 * time.Millisecond},
		}},
		{"some leases of a thread", leases(ints(-2), ints(20), ints(10), ints(-1)), []any{one, "3", two, "1"}, []admin.Holder{
			{Owner: one, Holds: 3, Remaining: 20 * time.Millisecond}, {Owner: two, Holds: 1, Remaining: -time.Millisecond},
		}},
		{"leases that the server refuses", Result{Err: &ReplyError{Text: "TRYAGAIN later"}}, []any{one, "1"}, []admin.Holder{
			{Owner: one, Holds: 1, Remaining: 40 * time.Millisecond},
		}},
		{"too few leases", leases(ints(20)), []any{one, "2"}, []admin.Holder{{Owner: one, Holds: 2, Remaining: 40 * time.Millisecond}}},
	} {
		if r, got, err := look(c.leases, append([]any{"mode", "read"}, c.holds...)...); err != nil || r.Kind != admin.KindReadWrite || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v and error %v, want %+v", c.name, got, err, c.want)
		}
	}
	if r, _, err := look(leases(), "mode", "read", one, "text"); err != nil || r.Kind != admin.KindOther {
		t.Errorf("no hold count: got %+v and error %v, want another kind", r, err)
	}
	for _, holds := range [][]any{{one, "1", two}, {one, ints(1)}} {
		if r, _, err := look(leases(), holds...); err == nil {
			t.Errorf("%v: got %+v, want a complaint about the reply", holds, r)
		}
	}
}

// What ForceUnlock asks a read-write lock comes after what it asks others, and its error is
// of the same kind.
func TestReadWriteBreakOnAReplica(t *testing.T) {
	conn := &fakeConn{answer: func(call Call) Result {
		if call.Script.Name() == "force" {
			return Result{Value: int64(0)}
		}
		return Result{Err: &ReplyError{Text: "READONLY no"}}
	}}
	h := admin.Holder{Owner: testUUID + ":1", Holds: 1, Remaining: time.Second}
	wantErrors(t, "on a replica", New(conn, nil).ForceUnlock(t.Context(), "orders", h, "why"), driver.ErrNotExecuted)
}
