package dash

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin/observe"
)

const eventLogRows = 200

// eventLogData is the page Event log.
type eventLogData struct {
	Find    string
	What    string // the only kind of event that is shown; "" for all
	Filters []filterData
	ShowAll string // the address without the search
	NoLog   bool   // the store has no event log that programs could report to
	Charts  chartsData
	Busy    []busyData
	Rows    []eventData
	Empty   emptyData
}

// filterData is a link to events of one kind, or of all.
type filterData struct {
	Name, Link string
	Chosen     bool
}

// busyData is a lock with many waiters.
type busyData struct {
	Name, Link string
	Waiting    int
}

// eventData is a row: one event of a lock.
type eventData struct {
	ID, Kind, Name, Link, Text string
	observe.Purpose
	At stamp
}

func (d *Dashboard) eventLogContent(q query, live bool) content {
	find := strings.ToLower(q.find)
	now := time.Now()
	list := d.eventLog.of("", time.Time{}, eventLogRows, func(s *event) bool {
		return (q.what == "" || s.Kind == q.what) && (find == "" || s.contains(find))
	})
	data := eventLogData{
		Find: q.find, What: q.what, Filters: filtersOf(q), Charts: d.allCharts(now), Busy: d.busiest(now), Rows: eventRows(list, live), NoLog: !d.table.HasLog(),
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

// filtersOf returns the links to the events of all kinds, and of each kind. The link of the
// present page is Chosen.
func filtersOf(q query) []filterData {
	list := []filterData{{"all", q.only("").link(), q.what == ""}}
	for _, what := range filters() {
		list = append(list, filterData{what, q.only(what).link(), q.what == what})
	}
	return list
}

// busiest returns the locks with the most waiters at once in the last hour.
func (d *Dashboard) busiest(now time.Time) []busyData {
	most := map[string]int{}
	for _, s := range d.eventLog.of("", now.Add(-time.Hour), mostEvents, func(s *event) bool { return s.Kind == eventWaiting && s.Count > 0 }) {
		most[s.Name] = max(most[s.Name], s.Count)
	}
	var list []busyData
	for name, n := range most {
		list = append(list, busyData{Name: short(printable(name), longName), Link: lockLink(name), Waiting: n})
	}
	slices.SortFunc(list, func(a, b busyData) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(8, len(list))]
}

func eventRows(list []event, live bool) []eventData {
	rows := make([]eventData, 0, len(list))
	for _, s := range list {
		rows = append(rows, eventData{
			ID: "h-" + strconv.FormatUint(s.number, 10), Kind: s.Kind, Name: short(printable(s.Name), longName),
			Link: lockLink(s.Name), At: stamped(s.At, live), Text: s.text(), Purpose: s.Purpose,
		})
	}
	return rows
}

// contains reports whether the name, the holder or the reason of s contains find, which is
// in lower case.
func (s *event) contains(find string) bool {
	for _, text := range []string{printable(s.Name), s.Who, s.Why, s.Reason, s.Labels} {
		if strings.Contains(strings.ToLower(text), find) {
			return true
		}
	}
	return false
}

// text describes s in words.
func (s event) text() string {
	switch s.Kind {
	case eventAcquired:
		text := "by " + s.Who
		if s.Token != 0 {
			text += fmt.Sprintf(", token %d", s.Token)
		}
		return text
	case eventRenewed:
		if s.Count > 1 {
			return fmt.Sprintf("%d times by %s", s.Count, s.Who)
		}
		return "by " + s.Who
	case eventRenewedLate:
		return fmt.Sprintf("by %s, %s of the lease were left", s.Who, span(s.Left))
	case eventWaiting:
		if s.Count == 0 {
			return "no waiters"
		}
		return fmt.Sprintf("%d waiting", s.Count)
	case eventExpired:
		return fmt.Sprintf("not renewed by %s, held for %s", s.Who, span(s.Held))
	case eventForced:
		if s.Held == 0 {
			return s.Who + ": " + s.Why
		}
		return fmt.Sprintf("%s, held for %s: %s", s.Who, span(s.Held), s.Why)
	case eventLost:
		return fmt.Sprintf("by %s after %s: %s", s.Who, span(s.Held), s.Why)
	case eventGaveUp:
		return "by " + s.Who + ": still held by another"
	}
	return fmt.Sprintf("by %s, held for %s", s.Who, span(s.Held))
}
