package shedlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

func TestBy(t *testing.T) {
	for written, want := range map[string]rows.Row{
		by(holds, "uuid:7", "host/job [1]"):        {Owner: "uuid:7", Note: "host/job [1]"},
		by(holds, "uuid:7.m1", ""):                 {Owner: "uuid:7.m1"},
		by(holds, "uuid:7", "hôst\n"):              {Owner: "uuid:7", Note: "h?st?"},
		by(released, "uuid:7", "host"):             {Owner: "uuid:7.kept", Note: "host"},
		by(forced, "uuid:7", "stuck since monday"): {Forced: "uuid:7", Reason: "stuck since monday"},
		holds:              {}, // of a row that was made and not taken yet
		"web-1":            {Owner: "web-1@5", Note: "web-1", Peer: true},
		"holdfast web":     {Owner: "holdfast web@5", Note: "holdfast web", Peer: true},
		"job runner web:1": {Owner: "job runner web:1@5", Note: "job runner web:1", Peer: true},
		"":                 {Owner: "@5", Peer: true},
	} {
		want.Known, want.HeldFor, want.Remaining = true, time.Second, time.Minute
		s := stored{by: written, held: time.Second.Microseconds(), rest: time.Minute.Microseconds(), since: 5}
		got := s.row()
		if got.Owner != want.Owner || got.Note != want.Note || got.Peer != want.Peer || got.Forced != want.Forced || got.Reason != want.Reason || got.HeldFor != want.HeldFor || got.Remaining != want.Remaining || !got.Known {
			t.Errorf("%q: got %+v, want %+v", written, got, want)
		}
	}
	if got := by(holds, "uuid:7", strings.Repeat("n", 300)); len(got) != maxBy {
		t.Errorf("by of a long note: got %d characters, want %d", len(got), maxBy)
	}
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 1000, 1: 2000, time.Millisecond: 2000, time.Second: 1001000} {
		if got := us(d); got != want {
			t.Errorf("us(%v): got %d, want %d", d, got, want)
		}
	}
}

// Parameters are numbered in their order in the statement.
func TestDialect(t *testing.T) {
	d := Dialect{Table: "t", Now: "NOW", Later: "{from} + ?", Micros: "{to} - {from}", Bytes: "{column}", Insert: "INSERT {row} OR NOT"}
	const want = "UPDATE t SET lock_until = GREATEST(lock_until, (NOW + ?)), locked_at = locked_at\nWHERE name = ? AND COALESCE(locked_by, '') = ? AND lock_until > NOW"
	if got := d.Statements().Renew; got != want {
		t.Errorf("renewal: got %s, want %s", got, want)
	}
	d.Ordinal = true
	d.Table = `"t?"`
	if got := d.Read(3); !strings.HasSuffix(got, `FROM "t?" WHERE name IN ($1, $2, $3)`) {
		t.Errorf("look: got %s, want three numbers, and the name of the table as it is", got)
	}
	if got := d.Statements().Insert; !strings.HasSuffix(got, " OR NOT") || strings.Contains(got, "{") {
		t.Errorf("insert: got %s, want the dialect's", got)
	}
	d.Unlocked = "JOIN `{held}`" // a name of a table may have braces
	if got := d.Statements().Try; !strings.Contains(got, d.Unlocked) {
		t.Errorf("try: got %s, want the JOIN as it is", got)
	}
}

// blank is a database whose table keeps nothing.
type blank struct{ executed int }

func (*blank) Check(context.Context) error { return nil }

func (b *blank) Exec(context.Context, string, []any) (int64, error) { b.executed++; return 0, nil }

func (*blank) Query(context.Context, string, []any, []any, func()) error { return nil }

// A name that the table cannot keep is refused, and not tried forever.
func TestTryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, sent := range map[string]int{"job": 4, strings.Repeat("\\", 60): 0} {
			db := &blank{}
			_, err := New(db, Dialect{}).Try(t.Context(), []driver.Claim{{Name: name, Owner: "c:1", TTL: time.Second}})
			if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || db.executed != sent {
				t.Errorf("Try of %q: got error %v after %d statements, want a refusal after %d", name, err, db.executed, sent)
			}
		}
	})
}
