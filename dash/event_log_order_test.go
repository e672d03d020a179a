package dash

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/memhold"
)

// notes is what a test gives an event log: each is polled or reported.
type notes []event

func (n notes) in(order []int) []string {
	h := NewEventLog()
	for _, i := range order {
		if n[i].reported {
			h.addReported(n[i])
		} else {
			h.addPolled(n[i])
		}
	}
	var rows []string
	for _, s := range h.of("a", time.Time{}, 100, nil) {
		rows = append(rows, s.Kind+" "+s.owner)
	}
	return rows
}

// orders returns the orders in which n things may come.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, o := range orders(n - 1) {
		for at := 0; at <= len(o); at++ {
			all = append(all, append(append(append([]int{}, o[:at]...), n-1), o[at:]...))
		}
	}
	return all
}

// A program notices only at its next renewal that its lock is gone. What was seen
// before is the same end.
func TestEventLogHasOneEndOfAHold(t *testing.T) {
	at := time.Now()
	seen := event{At: at, Kind: eventReleased, Name: "a", client: "c", owner: "c:1", Held: 6 * time.Second}
	for _, late := range []time.Duration{8 * time.Second, 40 * time.Second} {
		lost := event{
			At: at.Add(late), Kind: eventLost, Name: "a", Who: "me", client: "c", owner: "c:1", Token: 7,
			Held: 6*time.Second + late, Why: "deleted", reported: true,
		}
		for _, order := range orders(2) {
			h := NewEventLog()
			for _, i := range order {
				if i == 0 {
					h.addPolled(seen)
				} else {
					h.addReported(lost)
				}
			}
			list := h.of("a", time.Time{}, 10, nil)
			if len(list) != 1 || list[0].Kind != eventLost {
				t.Errorf("%s late, in order %v: got %+v, want the loss", late, order, list)
				continue
			}
			if order[0] != 0 {
				continue
			}
			want := fmt.Sprintf("by me after 6s: deleted; it noticed %s later", span(late))
			if got := list[0].text(); got != want || !list[0].At.Equal(at) {
				t.Errorf("%s late: got %q at %s, want %q when it was over", late, got, list[0].At.Sub(at), want)
			}
		}
	}
	// The end of an earlier hold of the same owner is another.
	before := seen
	before.At, before.Token = at.Add(-time.Minute), 6
	lost := event{At: at.Add(8 * time.Second), Kind: eventLost, Name: "a", client: "c", owner: "c:1", Token: 7, Held: 14 * time.Second, reported: true}
	if got := (notes{before, lost}).in([]int{0, 1}); len(got) != 2 {
		t.Errorf("got %q, want two ends of two holds", got)
	}
}

// The new holder of a lock reports it before anybody has seen, and before its last holder has
// noticed, that it was taken from that. It reads in the order in which it was.
func TestEventLogIsInTheOrderOfCauses(t *testing.T) {
	at := time.Now()
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	first := event{At: ms(-20_000), Kind: eventAcquired, Name: "a", client: "x", owner: "x:1", Token: 1, alone: true, reported: true}
	second := event{At: ms(5), Kind: eventAcquired, Name: "a", client: "y", owner: "y:1", Token: 2, alone: true, reported: true}
	forced := event{At: ms(10), Kind: eventForced, Name: "a", client: "x", owner: "x:1", reported: true}
	seen := event{At: ms(900), Kind: eventForced, Name: "a", client: "x", owner: "x:1", Held: 20_900 * time.Millisecond}
	released := event{At: ms(900), Kind: eventReleased, Name: "a", client: "x", owner: "x:1", Held: 20_900 * time.Millisecond}
	lost := event{At: ms(600), Kind: eventLost, Name: "a", client: "x", owner: "x:1", Token: 1, Held: 20_600 * time.Millisecond, reported: true}
	with := func(alone bool, s event) event {
		s.alone = alone
		return s
	}
	for name, test := range map[string]struct {
		notes notes
		want  string // the latest first; | where either may be
	}{
		"forced, told":    {notes{first, second, forced}, "acquired y:1, forced x:1, acquired x:1"},
		"forced, seen":    {notes{first, second, seen}, "acquired y:1, forced x:1, acquired x:1"},
		"lost":            {notes{first, second, lost}, "acquired y:1, lost x:1, acquired x:1"},
		"both":            {notes{first, second, forced, lost}, "acquired y:1, lost x:1, forced x:1, acquired x:1|acquired y:1, forced x:1, lost x:1, acquired x:1"},
		"released":        {notes{first, second, released}, "acquired y:1, released x:1, acquired x:1"},
		"writer, readers": {notes{first, with(false, second), with(true, released)}, "acquired y:1, released x:1, acquired x:1"},
		"two readers":     {notes{with(false, first), with(false, second), released}, "released x:1, acquired y:1, acquired x:1"},
		"not known which": {notes{with(false, first), with(false, second), forced}, "forced x:1, acquired y:1, acquired x:1"},
		"told to be released": {notes{first, second, func() event {
			s := released
			s.reported, s.Token = true, 1
			return s
		}()}, "released x:1, acquired y:1, acquired x:1"}, // two held it at once: that is not to be hidden
		"a later hold": {notes{second, func() event {
			s := lost
			s.Token, s.Held = 3, 300*time.Millisecond
			return s
		}()}, "lost x:1, acquired y:1"},
	} {
		for _, order := range orders(len(test.notes)) {
			got := strings.Join(test.notes.in(order), ", ")
			ok := false
			for want := range strings.SplitSeq(test.want, "|") {
				ok = ok || got == want
			}
			if !ok {
				t.Errorf("%s, in order %v: got %s, want %s", name, order, got, test.want)
			}
		}
	}
}

// Each hold of a name has its renewals in one row, however many hold it at a time
// and whatever happens in between.
func TestEventLogFoldsAllRenewals(t *testing.T) {
	h := NewEventLog()
	at := time.Now()
	for round := range 10 {
		for holder := range 3 {
			at = at.Add(time.Second)
			h.addPolled(event{At: at, Kind: eventRenewed, Name: "pool", Who: fmt.Sprint("p", holder), client: "c", owner: fmt.Sprint("c:", holder), Left: time.Duration(20-round) * time.Second})
		}
		h.addPolled(event{At: at, Kind: eventWaiting, Name: "pool", Count: round})
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
	h.addPolled(event{At: at, Kind: eventReleased, Name: "pool", Who: "p1", client: "c", owner: "c:1", Held: time.Minute})
	h.addPolled(event{At: at.Add(time.Second), Kind: eventAcquired, Name: "pool", Who: "p1", client: "c", owner: "c:1"})
	h.addPolled(event{At: at.Add(2 * time.Second), Kind: eventRenewed, Name: "pool", Who: "p1", client: "c", owner: "c:1", Left: time.Second})
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
		h.addPolled(event{At: at, Kind: eventRenewed, Name: fmt.Sprint(i), client: "c", owner: "c:1"})
	}
	if len(h.renewals) != mostEvents {
		t.Errorf("got %d, want %d", len(h.renewals), mostEvents)
	}
	h.addPolled(event{At: at, Kind: eventRenewed, Name: "0", client: "c", owner: "c:1"})
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
		d.eventLog.add(event{At: at, Kind: kind, Name: "other", Who: "grace", purpose: purpose{Reason: "deploy"}})
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
