package redishold

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// longestName is the maximal number of bytes of a text for a client.
const longestName = 200 + len("…")

// FuzzHolder shows that nothing that another program wrote into its registration,
// or into the lock itself, reaches a person as anything but text.
func FuzzHolder(f *testing.F) {
	const owner = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57"
	for _, record := range []string{
		"", "{}", "null", "[]", `{"note":"ci@host:4121"}`, `{"note":"\u001b[2J\u0007","program":"x","pid":-1}`,
		`{"program":"a\nb","host":"\u202e","pid":99999999999999999999}`, `{"note":"` + strings.Repeat("é", 300) + `"}`,
		`{"note":"` + strings.Repeat("x", 199) + `é"}`, "{\"note\":\"\xff\xfe\x00\"}", strings.Repeat("[", 100),
	} {
		f.Add(owner, record, "")
		f.Add("", record, "ci")
	}
	for _, holder := range []string{"", ":", "x", ":1", "a:b", "\x1b]0;x\x07:1", "\xff\xff:1", owner + ":write", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:x", strings.Repeat("\u202e", 500)} {
		f.Add(holder, "", "\x1b[31mnote\x00\xff")
	}
	slots := slotTable()
	f.Fuzz(func(t *testing.T, owner, record, note string) {
		own, err := json.Marshal(clients.Description{Note: note})
		if err != nil {
			t.Fatalf("a client cannot register with note %q: %v", note, err)
		}
		for _, registered := range []string{record, string(own)} {
			for _, which := range []Layout{Redisson, Plain, Timestamp} {
				showHolder(t, slots, which, owner, registered)
			}
		}
	})
}

// showHolder reads a lock that owner holds, in every way.
func showHolder(t *testing.T, slots *fuzzSlots, which Layout, owner, record string) {
	t.Helper()
	conn := &fakeConn{answer: func(c Call) Result {
		switch name := c.Script.Name(); name[strings.LastIndexByte(name, '_')+1:] { // <kind>_<operation>
		case "acquire":
			return Result{Value: []any{int64(0), int64(1500), owner, "1"}}
		case "client":
			return Result{Value: []any{record, "1763768514123"}}
		case "explain":
			return Result{Value: []any{int64(1), owner, "", int64(1)}}
		case "renew":
			return Result{Value: int64(0)}
		case "redisson": // list_redisson
			return Result{Value: []any{[]any{"hash", int64(1500), []any{owner, "1"}, int64(1), []any{int64(0)}, int64(0), int64(0)}}}
		case "plain":
			return Result{Value: []any{[]any{"string", int64(1500), owner, int64(0)}}}
		case "timestamp":
			return Result{Value: []any{[]any{"string", int64(1500), owner, int64(0), int64(1500)}}}
		}
		return Result{}
	}}
	ctx := context.Background()
	b := slots.newBackend(conn, &Options{Layout: which})
	out, err := b.Try(ctx, testClaim("stock:42"))
	if err != nil || out.Granted {
		t.Fatalf("held by %q: got %+v and error %v, want busy", owner, out, err)
	}
	readable(t, "Outcome.Holder", out.Holder)
	busy := &holdfast.BusyError{Name: "a\x1b[2J\xff", Holder: out.Holder, Remaining: out.RetryAfter}
	readable(t, "BusyError", strings.ReplaceAll(busy.Error(), out.Holder, ""))

	records, err := b.Get(ctx, "stock:42")
	switch {
	case err != nil:
		t.Fatalf("Get: %v", err)
	case which == Redisson && layout.ClientOf(owner) == "": // not written by a client of this layout
		if records[0].Kind == admin.KindMutex {
			t.Fatalf("Get: got %+v, want no lock of %q", records, owner)
		}
	case len(records[0].Holds) != 1 || records[0].Holds[0].Owner != owner:
		t.Fatalf("Get: got %+v, want owner %q", records, owner)
	default:
		readable(t, "Holder.Note", records[0].Holds[0].Note)
	}

	renewals, err := b.Renew(ctx, []driver.Claim{testClaim("stock:42")})
	if err != nil || renewals[0].Err == nil {
		t.Fatalf("Renew: got %+v and error %v, want a loss", renewals, err)
	}
	readable(t, "the reason of a loss", strings.TrimPrefix(renewals[0].Err.Error(), "now held by "))

	lostTo := tombstoneError("forced: " + record)
	readable(t, "the reason of a break", strings.TrimPrefix(lostTo.Error(), "ended by force: "))
}

// readable fails unless a terminal shows s as it is.
func readable(t *testing.T, what, s string) {
	t.Helper()
	if !utf8.ValidString(s) || len(s) > longestName {
		t.Errorf("%s: %q is no text of at most %d bytes", what, s, longestName)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			t.Errorf("%s: %q has %U in it", what, s, r)
		}
	}
}
