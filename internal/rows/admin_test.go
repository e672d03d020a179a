package rows_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

func TestAdmin(t *testing.T) {
	for _, listens := range []bool{false, true} {
		t.Run(fmt.Sprint("listens ", listens), func(t *testing.T) {
			admintest.Suite{Synctest: true, Open: func(*testing.T) admintest.Store {
				return rows.New(newTable(), rows.Limits{Name: "memory", Listens: listens})
			}}.Run(t)
		})
	}
}

// list returns the names of a List, and its error.
func list(t *testing.T, e *rows.Engine, f admin.Filter) (names []string, err error) {
	t.Helper()
	for r, failed := range e.List(t.Context(), f) {
		if err = failed; err == nil {
			names = append(names, r.Name)
		}
	}
	return names, err
}

// A List has the names that are taken, and reads no more rows than it may.
func TestList(t *testing.T) {
	table := newTable()
	e := rows.New(table, rows.Limits{Name: "memory"})
	taken := []string{"a", `b \ c`, "b\x00", "b\xc3", "b\xc3\x28", "bé", "bê", "é"}
	for _, name := range taken {
		table.rows[name] = &row{owner: "c:1", expires: time.Now().Add(time.Minute)}
	}
	for i := range 1200 {
		table.rows[fmt.Sprintf("free %04d", i)] = &row{owner: "c:1", expires: time.Now().Add(-time.Minute)}
	}
	table.rows["tx:job"] = &row{expires: time.Now().Add(time.Minute)}
	for _, tt := range []struct {
		filter admin.Filter
		want   []string
		err    error
	}{
		{filter: admin.Filter{}, want: taken},
		{filter: admin.Filter{NamePrefix: "b"}, want: []string{`b \ c`, "b\x00", "b\xc3", "b\xc3\x28", "bé", "bê"}},
		{filter: admin.Filter{NamePrefix: "b\xc3"}, want: []string{"b\xc3", "b\xc3\x28", "bé", "bê"}},
		{filter: admin.Filter{NamePrefix: "bé"}, want: []string{"bé"}},
		{filter: admin.Filter{NamePrefix: `b \`}, want: []string{`b \ c`}},
		{filter: admin.Filter{NamePrefix: "none"}},
		{filter: admin.Filter{NamePrefix: "free"}},
		{filter: admin.Filter{NamePrefix: "a", Keys: 1}, want: []string{"a"}, err: admin.ErrIncomplete},
		{filter: admin.Filter{NamePrefix: "free", Keys: 1100}, err: admin.ErrIncomplete},
		{filter: admin.Filter{Keys: 5000}, want: taken},
	} {
		got, err := list(t, e, tt.filter)
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("List of %+v: got %q and error %v, want %q and %v", tt.filter, got, err, tt.want, tt.err)
		}
	}
	table.conflict = table.calls().pages + 2
	if got, err := list(t, e, admin.Filter{}); err != nil || len(got) != len(taken) {
		t.Errorf("List with a conflict: got %q and error %v", got, err)
	}
	for r, err := range e.List(t.Context(), admin.Filter{}) {
		if err != nil {
			t.Errorf("got %+v and error %v", r, err)
		}
		break
	}
}

// The contents of a row are shown: the first of its tokens, for how long it has been held,
// by which owner, and the last forced unlock.
func TestGetAndDescribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		e := rows.New(table, rows.Limits{Name: "memory"})
		c := driver.Claim{Name: "job", Client: "c", Seq: 7, Owner: "c:7", TTL: time.Minute, Tokens: 3, Note: "me"}
		for range 2 {
			mustTry(t, e, c)
			mustRelease(t, e, c)
		}
		mustTry(t, e, c)
		time.Sleep(time.Second)
		want := admin.Hold{
			Holder: admin.Holder{Owner: "c:7", Note: "me", Holds: 1, Remaining: 59 * time.Second},
			Token:  7, HeldFor: time.Second, Client: admin.Client{ID: "c", Library: "holdfast", Note: "me"},
		}
		d, err := e.Describe(t.Context(), "job")
		if err != nil || d.Kind != admin.KindMutex || d.Holders != 1 || len(d.Holds) != 1 || d.Holds[0] != want || d.Remaining != 59*time.Second || d.Token != 9 || len(d.Keys) != 1 {
			t.Errorf("got %+v and error %v, want the hold %+v", d, err, want)
		}
		waiter := driver.Claim{Name: "job", Client: "d", Seq: 1, Owner: "d:1", TTL: time.Minute, Tokens: 1}
		if _, err := e.Try(t.Context(), waiter); err != nil {
			t.Fatal(err)
		}
		d, err = e.Describe(t.Context(), "job")
		if err != nil || d.Waiting != 1 || len(d.Waiters) != 1 || d.Waiters[0].Owner != "d:1" || d.Waiters[0].Client.ID != "d" {
			t.Errorf("got waiters %+v and error %v, want d:1, which is in the row", d.Waiters, err)
		}
		mustRelease(t, e, waiter)
		if err := e.ForceUnlock(t.Context(), "job", want.Holder, "why\x00not"); err != nil {
			t.Fatal(err)
		}
		var gone *driver.GoneError
		if err := e.Release(t.Context(), c); !errors.As(err, &gone) || gone.Reason != driver.ReasonForced {
			t.Errorf("Release: got error %v, want one that says forced", err)
		}
		d, err = e.Describe(t.Context(), "job")
		if err != nil || d.Kind != "" || d.Token != 9 || len(d.Keys) != 1 {
			t.Errorf("Describe of a free name: got %+v and error %v", d, err)
		}
		if d, err = e.Describe(t.Context(), "none"); err != nil || d.Name != "none" || len(d.Keys) != 0 {
			t.Errorf("Describe of a name without a row: got %+v and error %v", d, err)
		}
		other := c
		other.Owner = "c:8"
		mustTry(t, e, other)
		reasons, err := e.ForceReasons(t.Context(), []admin.Ended{{Name: "job", Owner: "c:8"}, {Name: "job", Owner: "c:7"}, {Name: "none", Owner: ""}})
		if err != nil || !slices.Equal(reasons, []string{"", "why\uFFFDnot", ""}) {
			t.Errorf("ForceReasons: got %q and error %v", reasons, err)
		}
	})
}

// A hold that has changed since it was read is not forced.
func TestForceUnlockOfAChangingHold(t *testing.T) {
	table := newTable()
	e := rows.New(table, rows.Limits{Name: "memory"})
	c := driver.Claim{Name: "job", Owner: "c:1", TTL: time.Minute, Tokens: 1}
	mustTry(t, e, c)
	table.forcing = func() {
		mustRelease(t, e, c)
		mustTry(t, e, c)
	}
	if err := e.ForceUnlock(t.Context(), "job", admin.Holder{Owner: "c:1"}, ""); !errors.Is(err, driver.ErrGone) {
		t.Errorf("ForceUnlock: got error %v, want ErrGone", err)
	}
	if answers, err := e.Renew(t.Context(), []driver.Claim{c}); err != nil || answers[0].Err != nil {
		t.Errorf("Renew: got %+v and error %v", answers, err)
	}
}

// If rows cannot be read, their names have the kind admin.KindUnknown.
func TestGetOfUnreadable(t *testing.T) {
	table := newTable()
	table.unchecked = errors.New("no table")
	e := rows.New(table, rows.Limits{Name: "memory"})
	records, err := e.Get(t.Context(), "a", "b")
	if !errors.Is(err, table.unchecked) || len(records) != 2 || records[1].Name != "b" || records[1].Kind != admin.KindUnknown {
		t.Errorf("got %+v and error %v", records, err)
	}
}
