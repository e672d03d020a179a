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

// Each hold of a name has its renewals in one row, however many hold it at a time
// and whatever happens in between.
func TestEventLogFoldsAllRenewals(t *testing.T) {
	h := NewEventLog()
	at := time.Now()
	for round := range 10 {
		for holder := range 3 {
			at = at.Add(time.Second)
			h.add(event{At: at, Kind: eventRenewed, Name: "pool", Who: fmt.Sprint("p", holder), owner: fmt.Sprint("c:", holder), Left: time.Duration(20-round) * time.Second})
		}
		h.add(event{At: at, Kind: eventWaiting, Name: "pool", Count: round})
	}
	renewals := func() (rows []string) {
		for _, s := range h.of("pool", time.Time{}, 100, func(s *event) bool { return s.Kind == eventRenewed }) {
			rows = append(rows, s.text()+" "+span(s.Left))
		}
		return rows
	}
	if got, want := strings.Join(renewals(), ", "), "10 times by p2 11s, 10 times by p1 11s, 10 times by p0 11s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// The next hold has renewals of its own, also of an owner that is used again.
	h.add(event{At: at, Kind: eventReleased, Name: "pool", Who: "p1", owner: "c:1", Held: time.Minute})
	h.add(event{At: at.Add(time.Second), Kind: eventAcquired, Name: "pool", Who: "p1", owner: "c:1"})
	h.add(event{At: at.Add(2 * time.Second), Kind: eventRenewed, Name: "pool", Who: "p1", owner: "c:1", Left: time.Second})
	if got := renewals(); len(got) != 4 || got[0] != "by p1 1s" {
		t.Errorf("got %q, want a row for the next hold", got)
	}
	if len(h.renewals) > 3 {
		t.Errorf("got %d rows that may grow, want one for each that holds it", len(h.renewals))
	}
}

// What was forgotten does not grow any more.
func TestRenewalsAreForgotten(t *testing.T) {
	h := NewEventLog()
	at := time.Now()
	for i := range 2 * mostEvents {
		h.add(event{At: at, Kind: eventRenewed, Name: fmt.Sprint(i), owner: "c:1"})
	}
	if len(h.renewals) != mostEvents {
		t.Errorf("got %d, want %d", len(h.renewals), mostEvents)
	}
	h.add(event{At: at, Kind: eventRenewed, Name: "0", owner: "c:1"})
	if s := h.of("0", time.Time{}, 10, nil); len(s) != 1 || s[0].Count != 1 {
		t.Errorf("got %+v, want a new row", s)
	}
}

// What was lost, forced or expired is found among all that happened, however much
// that is, together with a search or without.
func TestEventLogIsFiltered(t *testing.T) {
	d := Handler(admin.New(memhold.New()), nil)
	defer d.Close()
	at := time.Now()
	for i, kind := range []string{eventLost, eventForced, eventExpired, eventRenewedLate, eventGaveUp} {
		d.eventLog.add(event{At: at, Kind: kind, Name: fmt.Sprint("job-", i), Who: "ada"})
		d.eventLog.add(event{At: at, Kind: kind, Name: "other", Who: "grace", Purpose: observe.Purpose{Reason: "deploy"}})
	}
	for i := range 2 * eventLogRows {
		d.eventLog.add(event{At: at.Add(time.Duration(i)), Kind: eventAcquired, Name: fmt.Sprint("busy-", i)})
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
		c := d.eventLogContent(q, false)
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
