package dash

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/memhold"
)

func ofName(name string) func(*event) bool { return func(s *event) bool { return s.Name == name } }

func addEntry(h *eventLog, who string, e admin.Entry) {
	h.add(event{Change: observe.Change{Entry: e}, who: who})
}

// Each hold of a name has its renewals in one row, however many hold it at a time
// and whatever happens in between.
func TestEventLogFoldsAllRenewals(t *testing.T) {
	h := newEventLog()
	at := time.Now()
	for round := range 10 {
		for holder := range 3 {
			at = at.Add(time.Second)
			addEntry(h, fmt.Sprint("p", holder), admin.Entry{At: at, Type: observe.Renewed, Name: "pool", Owner: fmt.Sprint("c:", holder)})
		}
		addEntry(h, "", admin.Entry{At: at, Type: admin.EntryWaiting, Name: "pool", Count: round})
	}
	renewals := func() (rows []string) {
		for _, s := range h.of(time.Time{}, 100, func(s *event) bool { return s.Type == observe.Renewed }) {
			rows = append(rows, s.text())
		}
		return rows
	}
	if got, want := strings.Join(renewals(), ", "), "10 times by p2, 10 times by p1, 10 times by p0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// The next hold has renewals of its own, also of an owner that is used again.
	addEntry(h, "p1", admin.Entry{At: at, Type: admin.EntryReleased, Name: "pool", Owner: "c:1", HeldFor: time.Minute})
	addEntry(h, "p1", admin.Entry{At: at.Add(time.Second), Type: admin.EntryAcquired, Name: "pool", Owner: "c:1"})
	addEntry(h, "p1", admin.Entry{At: at.Add(2 * time.Second), Type: observe.Renewed, Name: "pool", Owner: "c:1"})
	if got := renewals(); len(got) != 4 || got[0] != "by p1" {
		t.Errorf("got %q, want a row for the next hold", got)
	}
	if len(h.renewals) > 3 {
		t.Errorf("got %d rows that may grow, want one for each that holds it", len(h.renewals))
	}
}

// What was forgotten does not grow any more.
func TestRenewalsAreForgotten(t *testing.T) {
	h := newEventLog()
	at := time.Now()
	for i := range 2 * mostEvents {
		addEntry(h, "", admin.Entry{At: at, Type: observe.Renewed, Name: fmt.Sprint(i), Owner: "c:1"})
	}
	if len(h.renewals) != mostEvents {
		t.Errorf("got %d, want %d", len(h.renewals), mostEvents)
	}
	addEntry(h, "", admin.Entry{At: at, Type: observe.Renewed, Name: "0", Owner: "c:1"})
	if s := h.of(time.Time{}, 10, ofName("0")); len(s) != 1 || s[0].Count != 1 {
		t.Errorf("got %+v, want a new row", s)
	}
}

// What was lost, forced or expired is found among all that happened, however much
// that is, together with a search or without.
func TestEventLogIsFiltered(t *testing.T) {
	d := Handler(admin.New(memhold.New()), nil)
	defer d.Close()
	at := time.Now()
	for i, kind := range []admin.EntryType{admin.EntryLost, admin.EntryForced, observe.Expired, admin.EntryRenewedLate, admin.EntryGaveUp} {
		addEntry(d.eventLog, "ada", admin.Entry{At: at, Type: kind, Name: fmt.Sprint("job-", i)})
		d.eventLog.add(event{Change: observe.Change{Entry: admin.Entry{At: at, Type: kind, Name: "other"}}, who: "grace", purpose: observe.Purpose{Reason: "deploy"}})
	}
	for i := range 2 * eventLogRows {
		addEntry(d.eventLog, "", admin.Entry{At: at.Add(time.Duration(i)), Type: admin.EntryAcquired, Name: fmt.Sprint("busy-", i)})
	}
	for address, want := range map[string]string{
		"what=lost":                    "job-0 lost, other lost",
		"what=forced":                  "job-1 forced, other forced",
		"what=expired&q=ADA":           "job-2 expired",
		"what=renewed+late&q=deploy":   "other renewed late",
		"what=gave+up&q=job":           "job-4 gave up",
		"what=lost&q=nobody":           "",
		"q=job":                        "job-0 lost, job-1 forced, job-2 expired, job-3 renewed late, job-4 gave up",
		"what=%3Cscript%3E&q=job-0":    "job-0 lost",
		"what=acquired&q=busy-7&page=": "busy-7 acquired, busy-70 acquired, busy-71 acquired, busy-72 acquired, busy-73 acquired, busy-74 acquired, busy-75 acquired, busy-76 acquired, busy-77 acquired, busy-78 acquired, busy-79 acquired",
	} {
		v, err := url.ParseQuery(address)
		if err != nil {
			t.Fatal(err)
		}
		q := parseQuery("event-log", v)
		c := d.eventLogContent(q, extras{})
		var rows []string
		for _, r := range c.data.(eventLogData).Rows {
			rows = append(rows, r.Name+" "+r.Kind)
		}
		slices.Sort(rows)
		if got := strings.Join(rows, ", "); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
		if again := parseQuery("event-log", q.values()); again != q {
			t.Errorf("%s: updates are for %+v, want %+v", address, again, q)
		}
	}
}
