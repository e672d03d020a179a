package mysqltest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/mysqlhold"
)

// TestAdmin runs the specification with and without prepared statements, and in modes of
// SQL that change what a statement means.
func TestAdmin(t *testing.T) {
	dsn, db, oracle := sqltest.StartMySQL(t)
	settings := map[string]string{
		"default":      "",
		"found rows":   "?interpolateParams=true&clientFoundRows=true",
		"no mode":      "?sql_mode=%27%27&interpolateParams=true&time_zone=%27%2B09%3A00%27",
		"simultaneous": "?sql_mode=%27SIMULTANEOUS_ASSIGNMENT%2CANSI%2CTRADITIONAL%27&interpolateParams=true",
	}
	if oracle { // which has no such mode
		delete(settings, "simultaneous")
	}
	for name, params := range settings {
		t.Run(name, func(t *testing.T) {
			b := mysqlhold.New(newDB(t, database(t, dsn, db)+params), nil)
			admintest.Suite{Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			sqltest.Prepared(t, b)
		})
	}
}

// A list has the names that are taken, whatever bytes they have, and a hold shows the
// first of its tokens.
func TestList(t *testing.T) {
	dsn, db, _ := sqltest.StartMySQL(t)
	for _, params := range []string{"", "?interpolateParams=true"} {
		t.Run("params "+fmt.Sprint(params != ""), func(t *testing.T) {
			b := sqltest.Prepared(t, mysqlhold.New(newDB(t, database(t, dsn, db)+params), nil))
			want := []string{"Job", "job", "job ", `job \ 1`, "job é", "job \xc3", "zé\x00"}
			tokens := map[string]uint64{}
			for i, name := range want {
				seq := uint64(i + 1)
				c := driver.Claim{Name: name, Client: "c", Seq: seq, Owner: fmt.Sprint("c:", seq), TTL: time.Minute, Count: 1, Tokens: 5}
				for range 3 { // each time with the same tokens
					out, err := b.Try(t.Context(), c)
					if err != nil || !out.Granted || tokens[name] != 0 && tokens[name] != out.Token {
						t.Fatalf("Try of %q: got %+v and error %v", name, out, err)
					}
					tokens[name] = out.Token
				}
			}
			var got []string
			for r, err := range admin.New(b).List(t.Context(), admin.Filter{}) {
				if err != nil || len(r.Holds) != 1 || r.Holds[0].Token != tokens[r.Name] {
					t.Fatalf("got %+v and error %v, want the token %d", r, err, tokens[r.Name])
				}
				got = append(got, r.Name)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A waiter goes on when the hold is ended by force, and the holder hears why
// at its next renewal, also where another one holds the name by then.
func TestForceUnlock(t *testing.T) {
	dsn, db, _ := sqltest.StartMySQL(t)
	b := sqltest.Prepared(t, mysqlhold.New(newDB(t, database(t, dsn, db)), nil))
	lock := must.Lock(t, holdfast.New(b, &holdfast.Options{TTL: 3 * time.Second}), "job")
	next := make(chan *holdfast.Lock, 1)
	go func() { next <- must.Lock(t, holdfast.New(b, nil), "job") }()
	c := admin.New(b)
	records, err := c.Get(t.Context(), "job")
	if err != nil || records[0].Holders != 1 {
		t.Fatalf("got %+v and error %v, want the hold", records, err)
	}
	if err := c.ForceUnlock(t.Context(), "job", records[0].Holds[0].Holder, "the runner is gone"); err != nil {
		t.Fatal(err)
	}
	other := <-next
	select {
	case <-lock.Context(t.Context()).Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the holder has not heard of it within its lease")
	}
	var lost *holdfast.LostError
	if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced || !strings.Contains(err.Error(), "the runner is gone") {
		t.Errorf("got error %v, want that it was forced, and why", err)
	}
	must.Unlock(t, other)
}
