package dash

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/driver"
)

// locksData is the page Locks.
type locksData struct {
	Find    string
	Sort    string // "" for the default
	Columns []column
	Summary summaryData
	Rows    []rowData
	Empty   emptyData
	Pager   pagerData
}

// column is the head of a column of the table.
type column struct {
	By, Name, Link string
	Sorted         string // the value of aria-sort; "" if the table is not sorted by this column
}

type summaryData struct {
	Names, Shown, Held, Waiting int
	Hidden                      bool // no waiter is known, but there may be some
	Find                        string
	Looking                     string // the state of the scan
}

type emptyData struct{ Empty, Find, Looking bool }

type pagerData struct {
	At, Pages      int
	Previous, Next string
}

// rowData is one lock in a table.
type rowData struct {
	ID, Link, Name, Title, Kind string
	Holds                       []holdData
	More                        int
	Waiting                     int
	Line                        bool // waiters are in a queue
	Hidden                      bool // the store does not show whether there are waiters
	Count                       string
}

// holdData is one hold.
type holdData struct {
	person
	Mode   string
	Count  int
	Token  uint64
	Since  ago
	Lease  lease
	Until  stamp  // until when a released name stays taken
	Unlock string // the address of the page that forces it; "" if it cannot be forced
	CLI    string
}

func (d *Dashboard) locksContent(q query, live bool) content {
	list, total, p := d.table.all(matches(q.find))
	arrange(list, q)
	pages := max(1, (len(list)+pageRows-1)/pageRows)
	q.pageNumber = min(max(q.pageNumber, 1), pages)
	page := list[min((q.pageNumber-1)*pageRows, len(list)):min(q.pageNumber*pageRows, len(list))]

	data := locksData{Find: q.find, Sort: q.values().Get("sort"), Columns: columns(q), Pager: pagerData{At: q.pageNumber, Pages: pages}}
	if q.pageNumber > 1 {
		data.Pager.Previous = q.onPage(q.pageNumber - 1).link()
	}
	if q.pageNumber < pages {
		data.Pager.Next = q.onPage(q.pageNumber + 1).link()
	}
	data.Summary = summaryData{Names: total, Shown: len(list), Find: q.find, Looking: p.progress()}
	for _, e := range list {
		data.Summary.Held += e.Holders
		data.Summary.Waiting += waiting(e.Record)
		data.Summary.Hidden = data.Summary.Hidden || waitersHidden(e.Record)
	}
	data.Summary.Hidden = data.Summary.Hidden && data.Summary.Waiting == 0
	data.Empty = emptyData{Empty: len(list) == 0, Find: q.find != "", Looking: p.ended.IsZero()}
	c := content{title: "Locks", page: "locks"}
	for _, e := range page {
		row := rowOf(e, live)
		data.Rows = append(data.Rows, row)
		c.rows = append(c.rows, part{row.ID, "row", row})
		c.names = append(c.names, e.Name)
	}
	c.data = data
	c.parts = []part{{"summary", "summary", data.Summary}, {"empty", "empty", data.Empty}, {"pager", "pager", data.Pager}}
	return c
}

// progress describes the scan. It returns "" if the last scan was complete and took at most
// 10 s.
func (p scan) progress() string {
	switch {
	case p.ended.IsZero() && p.number <= 1:
		return "the scan goes on"
	case p.partial != nil:
		return "the last scan was not complete"
	case p.lasted > 10*time.Second:
		return "new names appear within " + span((p.lasted + p.lasted/4).Round(10*time.Second))
	}
	return ""
}

// matches returns a function that reports whether a search finds a lock: its name, its
// kind, or a holder or its reason contains find.
func matches(find string) func(observe.State) bool {
	if find == "" {
		return nil
	}
	find = strings.ToLower(find)
	return func(e observe.State) bool {
		if strings.Contains(strings.ToLower(printable(e.Name)), find) || strings.Contains(string(e.Kind), find) {
			return true
		}
		return slices.ContainsFunc(e.Record.Holds, func(h admin.Hold) bool {
			return people(h).contains(find) || strings.Contains(h.Owner, find)
		})
	}
}

// arrange sorts list as q says; equal locks are sorted by name.
func arrange(list []observe.State, q query) {
	first := func(e observe.State) observe.Hold {
		if len(e.Holds) > 0 {
			return e.Holds[0]
		}
		return observe.Hold{}
	}
	who := map[string]string{}
	if q.sort == "holder" {
		for _, e := range list {
			if who[e.Name] = "\uffff"; len(e.Holds) > 0 {
				who[e.Name] = people(e.Record.Holds[0]).String()
			}
		}
	}
	by := map[string]func(a, b observe.State) int{
		"kind":    func(a, b observe.State) int { return cmp.Compare(a.Kind, b.Kind) },
		"holder":  func(a, b observe.State) int { return cmp.Compare(who[a.Name], who[b.Name]) },
		"held":    func(a, b observe.State) int { return first(b).Since.Compare(first(a).Since) },
		"lease":   func(a, b observe.State) int { return first(a).Ends.Compare(first(b).Ends) },
		"count":   func(a, b observe.State) int { return cmp.Compare(a.Holders, b.Holders) },
		"waiting": func(a, b observe.State) int { return cmp.Compare(waiting(a.Record), waiting(b.Record)) },
	}[q.sort]
	slices.SortFunc(list, func(a, b observe.State) int {
		order := 0
		if by != nil {
			order = by(a, b)
		}
		order = cmp.Or(order, cmp.Compare(a.Name, b.Name))
		if q.down {
			return -order
		}
		return order
	})
}

func columns(q query) []column {
	var list []column
	for _, c := range [][2]string{
		{"name", "Name"},
		{"kind", "Kind"},
		{"holder", "Holder"},
		{"held", "Held for"},
		{"lease", "Lease left"},
		{"count", "Count"},
		{"waiting", "Waiting"},
	} {
		head := column{By: c[0], Name: c[1], Link: q.sorted(c[0]).link()}
		if q.sort == c[0] {
			head.Sorted = "ascending"
			if q.down {
				head.Sorted = "descending"
			}
		}
		list = append(list, head)
	}
	return list
}

// rowOf describes e in one row.
func rowOf(e observe.State, live bool) rowData {
	const few = 2 // holders that a row shows
	text := printable(e.Name)
	row := rowData{
		ID: identity("r-", e.Name), Link: lockLink(e.Name), Name: short(text, longName), Kind: string(e.Kind),
		Waiting: waiting(e.Record), Line: e.Waiting > 0, Hidden: waitersHidden(e.Record), Count: countOf(e.Record),
	}
	if row.Name != text {
		row.Title = fmt.Sprintf("%d bytes: %s", len(e.Name), short(text, 1000))
	}
	for _, h := range e.Holds[:min(few, len(e.Holds))] {
		row.Holds = append(row.Holds, holdOf(e, h, live))
	}
	row.More = max(0, e.Holders-len(row.Holds))
	return row
}

// holdOf describes the hold h of e.
func holdOf(e observe.State, h observe.Hold, live bool) holdData {
	data := holdData{
		person: people(h.Hold), Count: h.Holds, Token: h.Token,
		Since: since(h.Since, !h.Exact, live), Lease: leaseOf(h, live),
	}
	if h.Kept() {
		data.Until = stamped(h.Ends, live)
	}
	if e.Kind == admin.KindReadWrite {
		data.Mode = "write"
		if h.Mode == driver.Shared {
			data.Mode = "read"
		}
	}
	return data
}

// countOf returns the text of the column Count: the number of holders, the hold count of the
// only holder, or the number of a latch or counter.
func countOf(r admin.Record) string {
	switch r.Kind {
	case admin.KindSemaphore:
		if r.Permits > 0 {
			return fmt.Sprintf("%d of %d", r.Holders, r.Permits)
		}
		return fmt.Sprintf("%d out, %d free", r.Holders, r.Free)
	case admin.KindLatch, admin.KindCounter:
		return fmt.Sprintf("%d left", r.Count)
	case admin.KindReadWrite:
		return fmt.Sprint(r.Holders)
	}
	if len(r.Holds) == 1 && r.Holders == 1 {
		return fmt.Sprint(r.Holds[0].Holds)
	}
	return fmt.Sprint(r.Holders)
}
