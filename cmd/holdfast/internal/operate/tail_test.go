package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/memhold"
)

func TestTailPollsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tail := newTailer(&TailOptions{Pace: 8, Every: time.Second}, Session{Console: admin.New(memhold.New())})
		poll := func(names ...string) {
			for _, name := range names {
				tail.observer.Poll(t.Context(), time.Now(), admin.Record{Name: name, Kind: admin.KindMutex})
			}
			time.Sleep(time.Second)
		}
		poll("e", "d", "c", "b", "a")
		for _, want := range []string{"[a b]", "[c d]", "[e a]", "[b c]"} {
			got := tail.turn()
			if fmt.Sprint(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
			poll(got...)
		}
		tail.Pace = 0
		if got := tail.turn(); len(got) != 5 {
			t.Errorf("got %v, want all", got)
		}
	})
}

// partly is a store of which a poll reads only some names, or none.
type partly struct {
	*memhold.Backend
	records []admin.Record
	err     error
}

func (p *partly) Get(context.Context, ...string) ([]admin.Record, error) { return p.records, p.err }

// What a poll read stands, whatever became of the other names. That the store does not
// answer, and that it answers again, is printed once.
func TestTailUsesWhatWasRead(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	names := []string{"job", "other"}
	free, unread := admin.Record{Name: "job"}, admin.Record{Name: "other", Kind: admin.KindUnknown}
	for _, test := range []struct {
		name    string
		ctx     context.Context
		known   []string
		store   partly
		failing bool
		want    string
	}{
		{"partly", t.Context(), names, partly{records: []admin.Record{free, unread}, err: errors.New("down")}, false, "unreachable held held released"},
		{"still", t.Context(), names, partly{records: []admin.Record{free, unread}, err: errors.New("down")}, true, "held held released"},
		{"all again", t.Context(), names, partly{records: []admin.Record{free}}, true, "back held held released"},
		{"nothing is known", t.Context(), nil, partly{}, true, ""},
		{"the end", ended, names, partly{err: context.Canceled}, true, "held held"},
		{"the end of the connection", ended, names, partly{err: errors.New("closed")}, false, "held held"},
	} {
		var out bytes.Buffer
		test.store.Backend = memhold.New()
		session := Session{Env: output.Environment{Stdout: &out}, Console: admin.New(&test.store)}
		tail := newTailer(&TailOptions{Every: time.Second}, session)
		for _, name := range test.known {
			tail.observer.Poll(t.Context(), time.Now(), admin.Record{Name: name, Kind: admin.KindMutex, Holders: 1, Holds: []admin.Hold{
				{Holder: admin.Holder{Owner: "a", Holds: 1, Remaining: time.Minute}},
			}})
		}
		tail.failing = test.failing
		if err := errors.Join(tail.poll(test.ctx), tail.printChanges(time.Now().Add(observe.Delay))); err != nil {
			t.Errorf("%s: got %v", test.name, err)
		}
		var events []string
		for line := range strings.Lines(out.String()) {
			events = append(events, strings.Fields(line)[1])
		}
		if got := strings.Join(events, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if _, known := tail.observer.Get("other"); !known && test.known != nil {
			t.Errorf("%s: the name that could not be read is forgotten", test.name)
		}
	}
}

func TestTailLines(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 8, 7, 0, time.Local)
	for _, test := range []struct {
		c    observe.Change
		want string
	}{
		{observe.Change{Entry: admin.Entry{Type: observe.Held}}, "held         job  by ci"},
		{observe.Change{Entry: admin.Entry{Type: admin.EntryReleased, HeldFor: time.Minute}}, "released     job  by ci, seen for 1m0s"},
		{observe.Change{Entry: admin.Entry{Type: observe.Expired, HeldFor: time.Minute}}, "expired      job  by ci, seen for 1m0s"},
		{observe.Change{Entry: admin.Entry{Type: admin.EntryForced, HeldFor: time.Minute, Reason: "stuck"}}, "forced       job  taken from ci, seen for 1m0s: stuck"},
		{observe.Change{Entry: admin.Entry{Type: observe.Counted, Count: 2}}, "count        job  2 times by ci"},
		{observe.Change{Entry: admin.Entry{Type: admin.EntryRenewedLate, Left: 5 * time.Second}}, "renewed-late job  by ci, 5s of the lease were left"},
		{observe.Change{Entry: admin.Entry{Type: admin.EntryWaiting}, Waiting: 3}, "waiting      job  3 in the queue"},
		{reported(admin.Entry{Type: admin.EntryWaiting}), "waiting      job  by ci"},
		{reported(admin.Entry{Type: admin.EntryAcquired, Waited: 1500 * time.Millisecond}), "acquired     job  by ci, after 1.5s"},
		{reported(admin.Entry{Type: admin.EntryAcquired}), "acquired     job  by ci"},
		{reported(admin.Entry{Type: admin.EntryGaveUp, Waited: time.Second}), "gave-up      job  by ci, after 1s"},
		{reported(admin.Entry{Type: admin.EntryReleased, HeldFor: 192 * time.Second}), "released     job  by ci, held for 3m12s"},
		{reported(admin.Entry{Type: admin.EntryReleased, HeldFor: time.Second, Reason: "not confirmed"}), "released     job  by ci, held for 1s: not confirmed"},
		{reported(admin.Entry{Type: admin.EntryLost, HeldFor: time.Second, Reason: "ex\x1bpired"}), "lost         job  by ci, held for 1s: ex\\x1bpired"},
		{reported(admin.Entry{Type: admin.EntryForced, Reason: "stuck"}), "forced       job  taken from ci: stuck"},
		{reported(admin.Entry{Type: admin.EntryMissed, Count: 12}), "missed       12 more by ci"},
	} {
		test.c.At, test.c.Note = at, "ci"
		if test.c.Type != admin.EntryMissed {
			test.c.Name = "job"
		}
		_, got, _ := strings.Cut(changeOf(test.c).String(), "  ")
		if got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if got, want := timeText(at, at.Add(time.Hour)), "09:08:07.0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := timeText(at, at.Add(24*time.Hour)), "2026-11-22 09:08:07.0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func reported(e admin.Entry) observe.Change { return observe.Change{Entry: e, Reported: true} }

// A pattern does not hide that entries are missing. Without --since the entries of the time
// before are only read.
func TestTailShows(t *testing.T) {
	now := time.Now()
	tail := newTailer(&TailOptions{Pattern: "job", Since: time.Minute}, Session{Console: admin.New(memhold.New())})
	tail.began = now
	for _, test := range []struct {
		what  admin.EntryType
		name  string
		age   time.Duration
		shown bool
	}{
		{admin.EntryAcquired, "job", 0, true},
		{admin.EntryAcquired, "other", 0, false},
		{admin.EntryAcquired, "job", 59 * time.Second, true},
		{admin.EntryAcquired, "job", 61 * time.Second, false},
		{admin.EntryMissed, "", 0, true},
		{observe.Renewed, "job", 0, false},
		{observe.Listening, "job", 0, false},
		{"", "job", 0, false},
		{observe.Held, "job", 0, true}, // from now on its grant is known
		{admin.EntryAcquired, "job", -100 * time.Millisecond, false},
		{admin.EntryAcquired, "job", -time.Second, true},
	} {
		c := reported(admin.Entry{Type: test.what, Name: test.name, At: now.Add(-test.age)})
		if got := tail.shows(c); got != test.shown {
			t.Errorf("%s of %q, %s old: got %v, want %v", test.what, test.name, test.age, got, test.shown)
		}
	}
}
