package dash

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", -time.Second: "0s", 120 * time.Millisecond: "120ms", 59 * time.Second: "59s", 65 * time.Second: "1m 05s",
		3*time.Hour + 4*time.Minute: "3h 04m", 50 * time.Hour: "2d 02h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, test := range []struct {
		text string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"", 3, ""}} {
		if got := short(test.text, test.n); got != test.want {
			t.Errorf("short(%q, %d): got %q, want %q", test.text, test.n, got, test.want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"deploy/prod": "deploy/prod", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'",
		"a\nb'": `$'a\nb\''`, "\xff\\": `$'\xff\\'`,
	} {
		if got := quoted(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	const id = "8743c9c0-0795-4907-87fd-6c719a6b4586"
	for _, test := range []struct {
		client      admin.Client
		owner, note string
		want        string
	}{
		{admin.Client{ID: id, Library: "redisson"}, id + ":42", "Redisson client 8743c9c0… thread 42", "Redisson client 8743c9c0… thread 42"},
		{admin.Client{ID: id, Library: "holdfast", Program: "app", Host: "web-1", PID: 7, Note: "app@web-1:7"}, id + ":1", "app@web-1:7", "web-1 · app · pid 7"},
		{admin.Client{ID: id, Library: "holdfast", Program: "app", Host: "web-1", PID: 7, Note: "nightly"}, id + ":1", "nightly", "web-1 · app · pid 7 (nightly)"},
		{admin.Client{Note: "me"}, "x", "me", "me"},
		{admin.Client{}, "owner\x00", "", `owner\x00`},
	} {
		if got := describe(test.client, test.owner, test.note).text(); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.client, got, test.want)
		}
	}
}

// What the command line has of --reason and --label stands behind the default note,
// or behind that of the command that is run.
func TestDescribeSaysWhy(t *testing.T) {
	c := admin.Client{ID: "8743c9c0", Library: "holdfast", Program: "holdfast", Host: "vm", PID: 7}
	for note, want := range map[string]person{
		"holdfast@vm:7":                                        {},
		"holdfast@vm:7 (db maintenance)":                       {purpose: purpose{Reason: "db maintenance"}},
		"holdfast@vm:7 (db maintenance) team=infra ci=7":       {purpose: purpose{Reason: "db maintenance", Labels: "team=infra ci=7"}},
		"holdfast@vm:7 team=infra":                             {purpose: purpose{Labels: "team=infra"}},
		"sh@vm:7 (nightly)":                                    {Note: "sh", purpose: purpose{Reason: "nightly"}},
		"sh@vm:7":                                              {Note: "sh"},
		"my script@vm:7 (a (b) c) team=x (y)":                  {Note: "my script", purpose: purpose{Reason: "a (b) c) team=x (y"}},
		"holdfast@vm:7 (cut":                                   {purpose: purpose{Reason: "cut"}},
		"holdfast@vm:7 ()":                                     {},
		"holdfast@vm:7 (<b>\x00)":                              {purpose: purpose{Reason: `<b>\x00`}},
		"holdfast@vm:8 (of a child)":                           {purpose: purpose{Reason: "of a child"}},
		"holdfast@vm:7, the third":                             {Note: "holdfast@vm:7, the third"},
		"holdfast@vm:7 and more":                               {Note: "holdfast@vm:7 and more"},
		"holdfast@vm:":                                         {Note: "holdfast@vm:"},
		"holdfast@elsewhere:7 (moved)":                         {Note: "holdfast@elsewhere:7 (moved)"},
		"nightly (x)":                                          {Note: "nightly (x)"},
		"holdfast@vm:7 (" + strings.Repeat("x", 500) + ") a=b": {purpose: purpose{Reason: strings.Repeat("x", longPurpose-1) + "…", Labels: "a=b"}},
	} {
		c.Note = note
		want.Name, want.Owner = "vm · holdfast · pid 7", "o:1"
		if got := describe(c, "o:1", note); got != want {
			t.Errorf("%s: got %+v, want %+v", note, got, want)
		}
	}
}

// A store that knows no processes has the note only.
func TestDescribeWhatIsANoteOnly(t *testing.T) {
	for note, want := range map[string]person{
		"app@host:1":                      {Name: "app@host:1"},
		"app@host:1 (nightly) team=infra": {Name: "app@host:1", purpose: purpose{Reason: "nightly", Labels: "team=infra"}},
		"app@host:1 and more":             {Name: "app@host:1 and more"},
		"nightly (x)":                     {Name: "nightly (x)"},
		"ada@example (x)":                 {Name: "ada@example (x)"},
		"ci: runner 7":                    {Name: "ci: runner 7"},
	} {
		want.Owner = "o:1"
		if got := describe(admin.Client{Note: note}, "o:1", note); got != want {
			t.Errorf("%s: got %+v, want %+v", note, got, want)
		}
	}
}

// A hold whose token and age are reported only later, or not for a moment, is still the
// same; one with another token is that of the next holder.
func TestHoldThatIsToldLater(t *testing.T) {
	var table table
	table.init(NewEventLog())
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	tell := func(after time.Duration, token uint64, since time.Duration) held {
		table.found(at.Add(after), []admin.Record{{Name: "job", Kind: admin.KindMutex, Holders: 1, Holds: []admin.Hold{{
			Holder: admin.Holder{Owner: "a:1", Holds: 1, Remaining: 30 * time.Second}, Token: token, HeldFor: since,
		}}}}, false, nil)
		e, _ := table.get("job")
		return e.holds[0]
	}
	happened := func() int {
		return len(table.eventLog.of("job", time.Time{}, 10, func(s *event) bool { return s.Kind != eventRenewed }))
	}
	table.pass.number = 2
	if h := tell(0, 0, 0); h.exact || !h.since.Equal(at) {
		t.Errorf("got %+v, want it first seen", h)
	}
	granted := at.Add(-time.Second)
	for after, h := range []held{tell(2*time.Second, 7, 3*time.Second), tell(3*time.Second, 0, 0), tell(4*time.Second, 7, 5100*time.Millisecond)} {
		if !h.exact || !h.since.Equal(granted) {
			t.Errorf("%d: got %+v, want it since %v", after, h, granted)
		}
	}
	if n := happened(); n != 1 {
		t.Errorf("%d events, want that it was acquired", n)
	}
	if h := tell(30*time.Second, 8, 5*time.Second); !h.since.Equal(at.Add(25 * time.Second)) {
		t.Errorf("got %+v, want the next holder's", h)
	}
	if n := happened(); n != 3 {
		t.Errorf("%d events, want a release and another acquire", n)
	}
	tell(31*time.Second, 0, 0)
	if h := tell(60*time.Second, 9, 4*time.Second); !h.since.Equal(at.Add(56 * time.Second)) {
		t.Errorf("got %+v, want the holder's after a gap", h)
	}
}

func TestEventLogIsLimited(t *testing.T) {
	h := NewEventLog()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range 3 * mostEvents / 2 {
		h.add(event{At: at.Add(time.Duration(i) * time.Millisecond), Kind: eventAcquired, Name: fmt.Sprint("lock", i%3000)})
	}
	all := h.of("", time.Time{}, 10*mostEvents, nil)
	if len(all) != mostEvents || all[0].number != 3*mostEvents/2 {
		t.Fatalf("got %d events, the last is %d; want %d and %d", len(all), all[0].number, mostEvents, 3*mostEvents/2)
	}
	one := h.of("lock7", time.Time{}, 1000, nil)
	if want := mostEvents/3000 + 1; len(one) < want-1 || len(one) > want {
		t.Errorf("got %d events of one name, want about %d", len(one), want)
	}
	for _, s := range one {
		if s.Name != "lock7" {
			t.Fatalf("got %q among those of lock7", s.Name)
		}
	}
	for i := range mostEvents {
		h.add(event{At: at.Add(time.Hour), Kind: eventAcquired, Name: fmt.Sprint("other", i)})
	}
	if got := len(h.last); got != mostEvents {
		t.Errorf("got %d names that are remembered, want %d", got, mostEvents)
	}
}

func TestEventLogJoinsWhatBelongsTogether(t *testing.T) {
	h := NewEventLog()
	at := time.Now()
	for i := range 10 {
		h.add(event{At: at.Add(time.Duration(i) * 10 * time.Second), Kind: eventRenewed, Name: "a", Who: "me"})
	}
	h.Observe(t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "a", HeldFor: time.Minute})
	h.addPolled(event{At: time.Now(), Kind: eventReleased, Name: "a", Held: time.Minute})
	h.Observe(t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "b", Reason: driver.ReasonForced})
	h.addPolled(event{At: time.Now().Add(time.Second), Kind: eventReleased, Name: "b", Held: 10 * time.Second})
	h.addPolled(event{At: time.Now().Add(time.Minute), Kind: eventReleased, Name: "b", Held: 10 * time.Second})
	var got []string
	for _, s := range h.of("", time.Time{}, 100, nil) {
		got = append(got, fmt.Sprint(s.Name, " ", s.Kind, " ", s.Count))
	}
	for _, want := range []string{"a renewed 10", "a released 0", "b lost 0", "b released 0"} {
		if n := strings.Count(strings.Join(got, "\n")+"\n", want+"\n"); n != 1 {
			t.Errorf("got %d of %q in %q, want one", n, want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %q, want 4", got)
	}
}

func TestCharts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Handler(admin.New(memhold.New()), nil)
		now := time.Now()
		d.eventLog.add(event{At: now.Add(-90 * time.Minute), Kind: eventReleased, Name: "a", Held: time.Hour})
		d.eventLog.add(event{At: now.Add(-30 * time.Minute), Kind: eventWaiting, Name: "a", Count: 4})
		d.eventLog.add(event{At: now.Add(-20 * time.Minute), Kind: eventWaiting, Name: "a", Count: 0})
		d.eventLog.add(event{At: now.Add(-10 * time.Minute), Kind: eventReleased, Name: "a", Held: 3 * time.Second})
		d.eventLog.add(event{At: now.Add(-10 * time.Minute), Kind: eventExpired, Name: "a", Held: 9 * time.Second})
		charts := d.lockCharts(now, "a").Charts
		if got := len(charts[0].Bars); got != 11 {
			t.Errorf("got %d minutes with waiters, want 11", got)
		}
		if b := charts[1].Bars; len(b) != 1 || b[0].Tall != chartHeight || charts[1].Top != "9s" || !strings.Contains(charts[1].Summary, "2 holds") {
			t.Errorf("got %+v, want one bar of 9s", charts[1])
		}
		if got := len(d.lockCharts(now, "none").Charts[0].Bars); got != 0 {
			t.Errorf("got %d bars of a name of which nothing is known", got)
		}
	})
}

// A stream in which nothing happens is kept alive, for proxies.
func TestComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Handler(admin.New(memhold.New()), nil)
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/events", nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.follow(r, &view{changed: make(chan struct{})}, 0, newSender(w))
		}()
		time.Sleep(50 * time.Second)
		d.Close()
		<-done
		if got := strings.Count(w.Body.String(), ": still here\n\n"); got != 3 {
			t.Errorf("got %d comments in 50s, want 3", got)
		}
	})
}

// A stream ends after a while, so that a reader has to log in again.
func TestStreamsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Handler(admin.New(memhold.New()), nil)
		defer d.Close()
		began := time.Now()
		d.stream(httptest.NewRecorder(), httptest.NewRequest("GET", "/events?view=", nil))
		if took := time.Since(began); took != streamLife {
			t.Errorf("the stream ended after %v, want %v", took, streamLife)
		}
	})
}

func TestLateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h held
		told := func(left time.Duration, had bool) {
			h = h.next(time.Now(), 0, admin.Hold{Holder: admin.Holder{Remaining: left}}, had)
		}
		told(30*time.Second, false)
		time.Sleep(16 * time.Second)
		told(14*time.Second, true)
		if l := leaseOf(h, false); l.IsLate || l.Late != 0 {
			t.Errorf("got %+v of a lease that was never renewed, want no renewal expected", l)
		}
		told(30*time.Second, true)
		if l := leaseOf(h, false); l.IsLate || l.Late == 0 || h.renews != 1 {
			t.Errorf("got %+v after a renewal", l)
		}
		time.Sleep(16 * time.Second)
		told(14*time.Second, true)
		if l := leaseOf(h, false); !l.IsLate {
			t.Errorf("got %+v 16s after a renewal of 30s, want late", l)
		}
	})
}

// The store remembers for a while that a hold was forced. A thread of Redisson's
// that takes the lock again meanwhile, and releases it, was not forced twice.
func TestForceIsToldOnce(t *testing.T) {
	var tb table
	h := NewEventLog()
	tb.init(h)
	now := time.Now()
	owner := admin.Ended{Name: "a", Owner: "o:1"}
	held := admin.Record{Name: "a", Kind: admin.KindMutex, Holders: 1, Holds: []admin.Hold{
		{Holder: admin.Holder{Owner: "o:1", Holds: 1, Remaining: time.Minute}},
	}}
	free := []admin.Record{{Name: "a"}}
	for i, why := range []string{"", "stuck", "stuck", "stuck again"} {
		at := now.Add(time.Duration(i) * 10 * time.Second)
		tb.found(at, []admin.Record{held}, false, nil)
		at = at.Add(5 * time.Second)
		if over := tb.over(at, free); len(over) != 1 || over[0] != owner {
			t.Errorf("got %v, want %v", over, owner)
		}
		tb.found(at, free, false, reasons{owner: why})
	}
	var got []string
	for _, s := range h.of("a", time.Time{}, 100, nil) {
		got = append(got, s.Kind+" "+s.Why)
	}
	if got, want := strings.Join(got, ", "), "forced stuck again, released , forced stuck, released "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a program reports of itself replaces what was polled, whichever
// comes first, and of nothing else.
func TestEventLogLearns(t *testing.T) {
	at := time.Now()
	row := func(kind, client string, after time.Duration, token uint64) event {
		return event{At: at.Add(after), Kind: kind, Name: "a", Who: client, client: client, Token: token}
	}
	held := func(s event, d time.Duration) event {
		s.Held = d
		return s
	}
	owned := func(s event, owner string) event {
		s.owner = owner
		return s
	}
	told := func(s event) event {
		s.reported = true
		return s
	}
	const s, m = time.Second, time.Minute
	got, gone, lapsed, lost, forced := eventAcquired, eventReleased, eventExpired, eventLost, eventForced
	for _, tt := range []struct {
		name         string
		seen, learnt event
		want         string // with ! where reported; the latest first
	}{
		{"acquired", row(got, "c", s, 0), row(got, "c", 0, 1), "acquired c 1!"},
		{"with its token", row(got, "c", s, 1), row(got, "c", 0, 1), "acquired c 1!"},
		{"another token", row(got, "c", s, 2), row(got, "c", 0, 1), "acquired c 2, acquired c 1!"},
		{"another client", row(got, "java", -s, 0), row(got, "c", 0, 1), "acquired c 1!, acquired java 0"},
		{"a walk later", row(got, "c", 5*m, 0), row(got, "c", 0, 1), "acquired c 1!"},
		{"long before", row(got, "c", -m, 0), row(got, "c", 0, 1), "acquired c 1!, acquired c 0"},
		{"released", held(row(gone, "c", s, 0), m), held(row(gone, "c", 0, 1), m), "released c 1!"},
		{"released, a walk later", held(row(gone, "c", 5*m, 0), 6*m), held(row(gone, "c", 0, 1), m), "released c 1!"},
		{"a later hold", held(row(gone, "c", 5*m, 0), m), held(row(gone, "c", 0, 1), m), "released c 0, released c 1!"},
		{"lost and expired", held(row(lapsed, "c", s, 1), m), held(row(lost, "c", 0, 1), m), "lost c 1!"},
		{"lost and forced", held(row(forced, "c", s, 1), m), held(row(lost, "c", 0, 1), m), "forced c 1, lost c 1!"},
		{"forced twice told", held(row(forced, "c", s, 1), m), row(forced, "c", 0, 0), "forced c 1"},
		{"another owner", owned(held(row(gone, "c", s, 0), m), "c:2"), owned(row(lost, "c", 0, 0), "c:1"), "released c 0, lost c 0!"},
		{"forced before", held(row(gone, "c", m, 0), m-2*s), row(forced, "c", 0, 0), "released c 0, forced c 0!"},
		{"of another kind", row(gone, "c", s, 1), row(got, "c", 0, 1), "released c 1, acquired c 1!"},
	} {
		for _, first := range []string{"seen", "told"} {
			h := NewEventLog()
			if first == "seen" {
				h.addPolled(tt.seen)
			}
			h.addReported(told(tt.learnt))
			if first == "told" {
				h.addPolled(tt.seen)
			}
			var rows []string
			for _, o := range h.of("a", time.Time{}, 10, nil) {
				text := fmt.Sprint(o.Kind, " ", o.client, " ", o.Token)
				if o.reported {
					text += "!"
				}
				rows = append(rows, text)
			}
			want := tt.want
			if tt.name == "forced twice told" && first == "told" {
				want = "forced c 0!"
			}
			if got := strings.Join(rows, ", "); got != want {
				t.Errorf("%s, first %s: got %q, want %q", tt.name, first, got, want)
			}
		}
	}
}

// What several programs tell at a time is not the same.
func TestEventLogKeepsTellersApart(t *testing.T) {
	h := NewEventLog()
	at := time.Now()
	for _, client := range []string{"a", "b", "b"} {
		h.addReported(event{At: at, Kind: eventGaveUp, Name: "nightly", client: client, reported: true})
	}
	h.addReported(event{At: at, Kind: eventAcquired, Name: "nightly", client: "d", Token: 1, reported: true})
	h.addReported(event{At: at.Add(time.Second), Kind: eventAcquired, Name: "nightly", client: "d", Token: 2, reported: true})
	h.Observe(t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "nightly", Token: 2})
	h.addReported(event{At: time.Now(), Kind: eventReleased, Name: "nightly", client: "d", Token: 2, reported: true})
	if got := len(h.of("nightly", time.Time{}, 100, nil)); got != 6 {
		t.Errorf("got %d rows, want three that gave up, two acquires and a release", got)
	}
}

// A dashboard that is started late knows what programs reported before, and goes on
// from there; of a hold that ends it knows that it was lost.
func TestDashboardReadsTheEventLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		program := holdfast.New(store, &holdfast.Options{Note: "a program", Observe: audit.New(store, nil).Observe})
		lock, err := program.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d := Handler(admin.New(store), nil)
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() { watched <- d.Watch(ctx) }()
		time.Sleep(5 * time.Second)
		silent, err := holdfast.New(store, &holdfast.Options{Note: "another"}).Lock(t.Context(), "silent")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := silent.Unlock(); err != nil {
			t.Fatal(err)
		}
		records, err := store.Get(t.Context(), "job")
		if err != nil || records[0].Holders != 1 {
			t.Fatalf("got %v and error %v", records, err)
		}
		if err := store.ForceUnlock(t.Context(), "job", records[0].Holds[0].Holder, "stuck"); err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done()
		time.Sleep(10 * time.Second)
		stop()
		<-watched
		d.Close()
		var got []string
		for _, s := range d.eventLog.of("", time.Time{}, 10, func(s *event) bool { return s.Kind != eventRenewed && s.Kind != eventWaiting }) {
			got = append(got, s.Name+" "+s.Kind+" "+s.text())
		}
		want := []string{"silent released", "job forced taken from", "job lost by a program after 1m", "silent acquired", "job acquired by a program, token "}
		slices.Sort(got)
		slices.Sort(want)
		same := len(got) == len(want)
		for i := range want {
			same = same && strings.HasPrefix(got[i], want[i])
		}
		if !same {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A dashboard at which nobody has looked for a while reads all that was reported
// meanwhile, and not more than an hour of it.
func TestDashboardCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		tell := func(n int, token uint64) {
			var entries []admin.Entry
			for i := range n {
				entries = append(entries, admin.Entry{
					Type: admin.EntryAcquired, At: time.Now(), Name: fmt.Sprint("job-", i), Owner: fmt.Sprint("c:", i), Token: token,
				})
			}
			if err := store.AppendLog(t.Context(), admin.Client{}, entries); err != nil {
				t.Fatal(err)
			}
		}
		d := Handler(admin.New(store), nil)
		defer d.Close()
		look := func() (told int) {
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			_ = d.Watch(ctx)
			time.Sleep(2 * idleTime) // until nobody watches any more
			return len(d.eventLog.of("", time.Time{}, mostEvents, func(s *event) bool { return s.reported }))
		}
		tell(10, 1)
		if got := look(); got != 10 {
			t.Errorf("got %d, want the 10 that were told", got)
		}
		tell(500, 2)
		time.Sleep(10 * time.Minute)
		if got := look(); got != 510 {
			t.Errorf("got %d, want 500 more", got)
		}
		tell(300, 3)
		time.Sleep(2 * time.Hour)
		tell(5, 4)
		if got := look(); got != 515 {
			t.Errorf("got %d, want 5 more, and nothing of two hours before", got)
		}
	})
}
