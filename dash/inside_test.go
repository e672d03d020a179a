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
	"github.com/holdfast-go/holdfast/admin/observe"
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

func TestEventLogIsLimited(t *testing.T) {
	h := newEventLog()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range 3 * mostEvents / 2 {
		addEntry(h, "", admin.Entry{At: at.Add(time.Duration(i) * time.Millisecond), Type: admin.EntryAcquired, Name: fmt.Sprint("lock", i%3000)})
	}
	all := h.of(time.Time{}, 10*mostEvents, func(*event) bool { return true })
	if len(all) != mostEvents || all[0].number != 3*mostEvents/2 {
		t.Fatalf("got %d events, the last is %d; want %d and %d", len(all), all[0].number, mostEvents, 3*mostEvents/2)
	}
	one := h.of(time.Time{}, 1000, ofName("lock7"))
	if want := mostEvents/3000 + 1; len(one) < want-1 || len(one) > want {
		t.Errorf("got %d events of one name, want about %d", len(one), want)
	}
	for _, s := range one {
		if s.Name != "lock7" {
			t.Fatalf("got %q among those of lock7", s.Name)
		}
	}
}

func TestCharts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Handler(admin.New(memhold.New()), nil)
		now := time.Now()
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-90 * time.Minute), Type: admin.EntryReleased, Name: "a", HeldFor: time.Hour})
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-30 * time.Minute), Type: admin.EntryWaiting, Name: "a", Count: 4})
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-20 * time.Minute), Type: admin.EntryWaiting, Name: "a", Count: 0})
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-10 * time.Minute), Type: admin.EntryReleased, Name: "a", HeldFor: 3 * time.Second})
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-10 * time.Minute), Type: observe.Expired, Name: "a", HeldFor: 9 * time.Second})
		charts := d.lockCharts(now, "a")
		if got := len(charts[0].Bars); got != 11 {
			t.Errorf("got %d minutes with waiters, want 11", got)
		}
		if b := charts[1].Bars; len(b) != 1 || b[0].Tall != chartHeight || charts[1].Top != "9s" || !strings.Contains(charts[1].Summary, "2 holds") {
			t.Errorf("got %+v, want one bar of 9s", charts[1])
		}
		if got := len(d.lockCharts(now, "none")[0].Bars); got != 0 {
			t.Errorf("got %d bars of a name of which nothing is known", got)
		}
	})
}

// Texts with a number are right for one, too.
func TestOneOfEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Handler(admin.New(memhold.New()), nil)
		now := time.Now()
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-30 * time.Minute), Type: admin.EntryWaiting, Name: "a", Count: 1})
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-20 * time.Minute), Type: admin.EntryWaiting, Name: "a", Count: 0})
		addEntry(d.eventLog, "", admin.Entry{At: now.Add(-10 * time.Minute), Type: admin.EntryReleased, Name: "a", HeldFor: 3 * time.Second})
		for i, want := range []string{"At most 1 client waited at the same time in the last hour.", "1 hold ended in the last hour. It lasted 3s."} {
			if got := d.lockCharts(now, "a")[i].Summary; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// The clients that listen, and are not among the clients with a name, are counted.
func TestClientsWithoutAName(t *testing.T) {
	d := Handler(admin.New(memhold.New()), nil)
	reader := admin.ClientWait{Client: admin.Client{ID: "a"}, Mode: driver.Shared, Count: 1}
	writer := admin.ClientWait{Client: admin.Client{ID: "a"}, Count: 1}
	for _, c := range []struct {
		listeners int
		waits     []admin.ClientWait
		want      string
	}{
		{2, []admin.ClientWait{writer}, "and 1 more client that listens."},
		{3, []admin.ClientWait{reader, writer}, "and 2 more clients that listen."},
		{1, []admin.ClientWait{reader, writer}, ""},
		{-1, []admin.ClientWait{writer}, ""},
	} {
		state := observe.State{Record: admin.Record{Name: "job", Kind: admin.KindMutex, Listeners: c.listeners}}
		page := render(d.pages, "state", stateOf(state, detail{Detail: admin.Detail{Waits: c.waits}}))
		if !strings.Contains(page, c.want) || c.want == "" && strings.Contains(page, "more client") {
			t.Errorf("%d clients that listen, %d with names: no %q in %s", c.listeners, len(c.waits), c.want, page)
		}
	}
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
			d.follow(w, r, &reader{view: &view{changed: make(chan struct{})}}, 0)
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

// A lease ends soon when a renewal is late. If it was never renewed it may be fixed, and ends
// soon within its last minute.
func TestEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe.New(admin.New(memhold.New()), nil)
		polled := func(left time.Duration, taken bool) lease {
			hold := admin.Hold{Holder: admin.Holder{Owner: "a:1", Holds: 1, Remaining: left}}
			if taken {
				hold.Owner += driver.KeptOwner
			}
			o.Poll(t.Context(), time.Now(), admin.Record{Name: "job", Kind: admin.KindMutex, Holders: 1, Holds: []admin.Hold{hold}})
			s, _ := o.Get("job")
			return leaseOf(s.Holds[0], false)
		}
		want := func(when string, l lease, soon, renewed bool) {
			t.Helper()
			if l.IsSoon != soon || l.Renewed != renewed {
				t.Errorf("%s: got %+v, want that it ends soon: %t, renewed: %t", when, l, soon, renewed)
			}
		}
		want("new", polled(30*time.Second, false), false, false)
		time.Sleep(16 * time.Second)
		want("never renewed, 14s left of 30s", polled(14*time.Second, false), true, false)
		want("renewed", polled(30*time.Second, false), false, true)
		time.Sleep(14 * time.Second)
		want("14s after a renewal of 30s", polled(16*time.Second, false), false, true)
		time.Sleep(2 * time.Second)
		want("16s after a renewal of 30s", polled(14*time.Second, false), true, true)

		o.Poll(t.Context(), time.Now(), admin.Record{Name: "job"})
		want("fixed", polled(time.Hour, false), false, false)
		time.Sleep(58 * time.Minute)
		want("two minutes left of a fixed hour", polled(2*time.Minute, false), false, false)
		time.Sleep(90 * time.Second)
		want("half a minute left of a fixed hour", polled(30*time.Second, false), true, false)

		o.Poll(t.Context(), time.Now(), admin.Record{Name: "job"})
		want("taken after its release", polled(10*time.Second, true), false, false)
		time.Sleep(9 * time.Second)
		want("taken for one more second", polled(time.Second, true), false, false)
	})
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
		for _, s := range d.eventLog.of(time.Time{}, 10, func(s *event) bool { return s.Type != observe.Renewed && s.Type != admin.EntryWaiting }) {
			got = append(got, s.Name+" "+s.kind()+" "+s.text())
		}
		want := []string{"silent released", "job forced taken from a program, seen for ", "job lost by a program, held for 1m", "silent acquired", "job acquired by a program, token "}
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

// logSite is a dashboard, and programs that write to the event log of its store.
type logSite struct {
	*testing.T
	store *memhold.Backend
	d     *Dashboard
}

func (s *logSite) report(n int, what admin.EntryType, token uint64) {
	s.Helper()
	var entries []admin.Entry
	for i := range n {
		entries = append(entries, admin.Entry{
			Type: what, At: time.Now(), Name: fmt.Sprint("job-", i), Owner: fmt.Sprint("c:", i), Token: token,
		})
	}
	if err := s.store.AppendLog(s.Context(), admin.Client{}, entries); err != nil {
		s.Fatal(err)
	}
}

// watched calls report while the dashboard polls, and returns how many events it has after
// that.
func (s *logSite) watched(report func()) int {
	ctx, stop := context.WithTimeout(s.Context(), 5*time.Second)
	defer stop()
	time.AfterFunc(time.Second, report)
	_ = s.d.Watch(ctx)
	time.Sleep(2 * idleTime) // until it polls no more
	return len(s.d.eventLog.of(time.Time{}, mostEvents, func(*event) bool { return true }))
}

func inLogSite(t *testing.T, test func(*logSite)) {
	synctest.Test(t, func(t *testing.T) {
		s := &logSite{T: t, store: memhold.New()}
		s.d = Handler(admin.New(s.store), nil)
		defer s.d.Close()
		test(s)
	})
}

// A dashboard that did not poll for a while reads all that was reported meanwhile, and not
// more than an hour of it.
func TestDashboardCatchesUp(t *testing.T) {
	inLogSite(t, func(s *logSite) {
		nothing := func() {}
		s.report(10, admin.EntryAcquired, 1)
		if got := s.watched(nothing); got != 10 {
			t.Errorf("got %d, want the 10 that were reported", got)
		}
		s.report(500, admin.EntryAcquired, 2)
		time.Sleep(10 * time.Minute)
		if got := s.watched(nothing); got != 510 {
			t.Errorf("got %d, want 500 more", got)
		}
		s.report(300, admin.EntryAcquired, 3)
		time.Sleep(2 * time.Hour)
		s.report(5, admin.EntryAcquired, 4)
		if got := s.watched(nothing); got != 515 {
			t.Errorf("got %d, want 5 more, and nothing of two hours before", got)
		}
	})
}

// Very many events do not push all others out of the log. Rare ones are always in it.
func TestManyEventsAtOnceAreLimited(t *testing.T) {
	inLogSite(t, func(s *logSite) {
		got := s.watched(func() {
			s.report(300, admin.EntryAcquired, 1)
			s.report(200, admin.EntryLost, 1)
		})
		if got != logCommon+200 {
			t.Errorf("got %d, want %d and 200 losses", got, logCommon)
		}
	})
}

// A Locker that reports to Observe has no other source, also if it writes to the event log.
func TestOwnLockerHasOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		d := Handler(admin.New(store), nil)
		defer d.Close()
		writer := audit.New(store, nil)
		locker := holdfast.New(store, &holdfast.Options{Observe: func(ctx context.Context, e holdfast.Event) {
			d.Observe(ctx, e)
			writer.Observe(ctx, e)
		}})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		time.AfterFunc(5*time.Second, func() {
			lock, err := locker.Lock(ctx, "job")
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(25 * time.Second)
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		})
		_ = d.Watch(ctx)
		d.Close()
		var got []string
		for _, s := range d.eventLog.of(time.Time{}, 10, ofName("job")) {
			got = append(got, s.kind()+" by "+s.who)
		}
		want := "released by this process, renewed by this process, acquired by this process"
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	})
}
