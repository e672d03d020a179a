package dash

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

const eventLogRows = 200

// eventLogData is the page Event log.
type eventLogData struct {
	Find    string
	What    string // the only kind of event that the page shows; "" for all
	Filters []filterData
	ShowAll string // the address of the page without the search
	NoLog   bool   // the store has no event log that programs could report to
	Charts  []chart
	Busy    []busyData
	Rows    []eventData
	Empty   emptyData
}

// filterData is a link to the events of one kind, or to all events.
type filterData struct {
	Name, Link string
	Chosen     bool
}

// busyData is a lock with many waiters.
type busyData struct {
	linkData
	Waiting int
}

// eventData is a row: one event of a lock.
type eventData struct {
	linkData
	observe.Purpose
	ID, Kind, Text string
	At             time.Time
}

func (d *Dashboard) eventLogContent(q query, _ extras) content {
	find := strings.ToLower(q.find)
	now := time.Now()
	list := d.eventLog.of(time.Time{}, eventLogRows, func(s *event) bool {
		return (q.what == "" || s.kind() == q.what) && (find == "" || s.contains(find))
	})
	data := eventLogData{
		Find: q.find, What: q.what, Filters: filtersOf(q), Charts: d.allCharts(now), Busy: d.busiest(now), Rows: eventRows(list), NoLog: !d.table.HasLog(),
	}
	all := q
	all.find = ""
	data.ShowAll = all.link()
	data.Empty = emptyData{Empty: len(list) == 0, Find: find != "" || q.what != ""}
	c := content{title: "Event log", page: "event-log", data: data}
	c.parts = []part{{"charts", "charts", data.Charts}, {"busy", "busy", data.Busy}, {"empty", "noevents", data.Empty}}
	for _, row := range data.Rows {
		c.rows = append(c.rows, part{row.ID, "event", row})
	}
	return c
}

// filtersOf returns one link to the events of all kinds, and one link for each kind in
// filters. The link that leads to the present page is Chosen.
func filtersOf(q query) []filterData {
	var list []filterData
	for _, what := range append([]string{""}, filters()...) {
		filtered := q
		filtered.what = what
		list = append(list, filterData{cmp.Or(what, "all"), filtered.link(), q.what == what})
	}
	return list
}

// busiest returns the locks with the most waiters at once in the last hour.
func (d *Dashboard) busiest(now time.Time) []busyData {
	most := map[string]int{}
	for _, s := range d.eventLog.of(now.Add(-time.Hour), mostEvents, func(s *event) bool { return s.Type == admin.EntryWaiting && s.Count > 0 }) {
		most[s.Name] = max(most[s.Name], s.Count)
	}
	var list []busyData
	for name, n := range most {
		list = append(list, busyData{linkTo(name, longName), n})
	}
	slices.SortFunc(list, func(a, b busyData) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(8, len(list))]
}

func eventRows(list []event) []eventData {
	rows := make([]eventData, len(list))
	for i, s := range list {
		rows[i] = eventData{
			linkData: linkTo(s.Name, longName), Purpose: s.purpose,
			ID: "h-" + strconv.FormatUint(s.number, 10), Kind: s.kind(), Text: s.text(), At: s.At,
		}
	}
	return rows
}

// contains reports whether the name, the holder or the reason of s contains the text `find`,
// which is in lower case.
func (s *event) contains(find string) bool {
	text := strings.Join([]string{printable(s.Name), s.who, s.Reason, s.purpose.Reason, s.purpose.Labels}, "\n")
	return strings.Contains(strings.ToLower(text), find)
}

// text describes s in words.
func (s *event) text() string {
	switch {
	case s.Type == admin.EntryWaiting && s.Count == 0:
		return "no waiters"
	case s.Type == admin.EntryWaiting:
		return fmt.Sprintf("%d waiting", s.Count)
	case s.Type == observe.Renewed && s.Count > 1:
		return fmt.Sprintf("%d times by %s", s.Count, s.who)
	case s.Type == admin.EntryAcquired && s.Token != 0:
		return fmt.Sprintf("%s, token %d", s.Text(s.who, span), s.Token)
	}
	return s.Text(s.who, span)
}
