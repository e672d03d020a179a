package dash

import (
	"cmp"
	"fmt"
	"html/template"
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
	Sort    string // the column by which the rows are sorted, as in query.sort; "" for the default
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
	totals  // the numbers of the names that the search finds
	All     int
	Find    string
	Looking string // the state of the scan
}

type emptyData struct{ Empty, Find, Looking bool }

type pagerData struct {
	At, Pages      int
	Previous, Next string
}

// linkData is the name of a lock, with the address of its page.
type linkData struct {
	Name, Link string
	Title      string // set if Name is cut: the length of the whole name, and a longer part of it
}

func linkTo(name string, n int) linkData {
	text := printable(name)
	l := linkData{Name: short(text, n), Link: lockLink(name)}
	if l.Name != text {
		l.Title = fmt.Sprintf("%d bytes: %s", len(name), short(text, 1000))
	}
	return l
}

// rowData is one lock in a table.
type rowData struct {
	linkData
	ID, Kind, Count string
	Holds           []holdData
	More            int
	Waiting         int
	Line            bool // some waiters are in a queue
	Hidden          bool // the store does not show whether there are waiters
}

// holdData is one hold.
type holdData struct {
	person
	Mode  string
	Hold  observe.Hold
	Since ago
	Until time.Time // when the name becomes free, if nobody holds the lock but the name stays taken; else zero
}

func (d *Dashboard) locksContent(q query, _ extras) content {
	var list []observe.State
	all, find, p := 0, strings.ToLower(q.find), d.table.now()
	for e := range d.table.All {
		if all++; find == "" || matches(e, find) {
			list = append(list, e)
		}
	}
	arrange(list, q)
	pages := max(1, (len(list)+pageRows-1)/pageRows)
	q.pageNumber = min(q.pageNumber, pages)
	page := list[min((q.pageNumber-1)*pageRows, len(list)):min(q.pageNumber*pageRows, len(list))]

	data := locksData{Find: q.find, Sort: q.values().Get("sort"), Columns: heads(q), Pager: pagerData{At: q.pageNumber, Pages: pages}}
	if q.pageNumber > 1 {
		data.Pager.Previous = q.onPage(q.pageNumber - 1).link()
	}
	if q.pageNumber < pages {
		data.Pager.Next = q.onPage(q.pageNumber + 1).link()
	}
	data.Summary = summaryData{totals: sum(slices.Values(list)), All: all, Find: q.find, Looking: p.progress()}
	data.Empty = emptyData{Empty: len(list) == 0, Find: q.find != "", Looking: p.ended.IsZero()}
	c := content{title: "Locks", page: "locks"}
	for _, e := range page {
		row := rowOf(e)
		data.Rows = append(data.Rows, row)
		c.rows = append(c.rows, part{row.ID, "row", row})
		c.names = append(c.names, e.Name)
	}
	c.data = data
	c.parts = []part{{"summary", "summary", data.Summary}, {"empty", "empty", data.Empty}, {"pager", "pager", data.Pager}}
	return c
}

// Table returns the table of the page Locks as HTML, for a page of the program that serves the
// dashboard. It has the first 25 locks by name, as the last polls found them. If there are none,
// it says so. Its links are relative to Options.BasePath, and so is its style sheet,
// static/dash.css. Table sends no request, and does not call Options.Authorize.
func (d *Dashboard) Table() template.HTML {
	data := d.locksContent(parseQuery("", nil), extras{}).data.(locksData)
	// The columns have no links, because only the page Locks can sort the table.
	data.Columns = columns()
	return template.HTML(render(d.pages, "table", data)) //nolint:gosec // every byte of it comes from html/template
}

// matches reports whether a search finds the lock e: its name, its kind, a holder, or the
// reason of a holder contains the text `find`, which is in lower case.
func matches(e observe.State, find string) bool {
	if strings.Contains(strings.ToLower(printable(e.Name)), find) || strings.Contains(string(e.Kind), find) {
		return true
	}
	return slices.ContainsFunc(e.Record.Holds, func(h admin.Hold) bool {
		return strings.Contains(strings.ToLower(people(h).String()), find) || strings.Contains(h.Owner, find)
	})
}

// arrange sorts the list in the order of q. If locks are equal in this order, arrange sorts
// them by name.
func arrange(list []observe.State, q query) {
	first := func(e observe.State) observe.Hold {
		if len(e.Holds) > 0 {
			return e.Holds[0]
		}
		return observe.Hold{}
	}
	column, down := strings.CutPrefix(q.sort, "-")
	who := map[string]string{}
	if column == "holder" {
		for _, e := range list {
			if who[e.Name] = "\uffff"; len(e.Holds) > 0 {
				who[e.Name] = people(e.Record.Holds[0]).String()
			}
		}
	}
	order := map[string]func(a, b observe.State) int{
		"name":    func(observe.State, observe.State) int { return 0 },
		"kind":    func(a, b observe.State) int { return cmp.Compare(a.Kind, b.Kind) },
		"holder":  func(a, b observe.State) int { return cmp.Compare(who[a.Name], who[b.Name]) },
		"held":    func(a, b observe.State) int { return first(b).Since.Compare(first(a).Since) },
		"lease":   func(a, b observe.State) int { return first(a).Ends.Compare(first(b).Ends) },
		"count":   func(a, b observe.State) int { return cmp.Compare(a.Holders, b.Holders) },
		"waiting": func(a, b observe.State) int { return cmp.Compare(waiting(a.Record), waiting(b.Record)) },
	}[column]
	slices.SortFunc(list, func(a, b observe.State) int {
		if down {
			a, b = b, a
		}
		return cmp.Or(order(a, b), cmp.Compare(a.Name, b.Name))
	})
}

// columns returns the columns of the table. Users can sort the table by each column.
func columns() []column {
	return []column{
		{By: "name", Name: "Name"},
		{By: "kind", Name: "Kind"},
		{By: "holder", Name: "Holder"},
		{By: "held", Name: "Held for"},
		{By: "lease", Name: "Lease left"},
		{By: "count", Name: "Count"},
		{By: "waiting", Name: "Waiting"},
	}
}

// heads returns the columns with the links that sort the table by them.
func heads(q query) []column {
	list := columns()
	for i := range list {
		head := &list[i]
		head.Link = q.sorted(head.By).link()
		switch q.sort {
		case head.By:
			head.Sorted = "ascending"
		case "-" + head.By:
			head.Sorted = "descending"
		}
	}
	return list
}

// rowOf describes the lock e in one row.
func rowOf(e observe.State) rowData {
	const few = 2 // how many holders a row shows
	row := rowData{
		linkData: linkTo(e.Name, longName), ID: identity("r-", e.Name), Kind: string(e.Kind), Count: countOf(e.Record),
		Waiting: waiting(e.Record), Line: e.Waiting > 0, Hidden: waitersHidden(e.Record),
	}
	for _, h := range e.Holds[:min(few, len(e.Holds))] {
		row.Holds = append(row.Holds, holdOf(e, h))
	}
	row.More = max(0, e.Holders-len(row.Holds))
	return row
}

// holdOf describes the hold h of the lock e.
func holdOf(e observe.State, h observe.Hold) holdData {
	data := holdData{person: people(h.Hold), Mode: modeOf(e.Kind, h.Mode), Hold: h, Since: ago{h.Since, !h.Exact}}
	if h.Kept() {
		data.Until = h.Ends
	}
	return data
}

// modeOf returns "read" or "write" for a hold or a waiter of a read-write lock, else "".
func modeOf(kind admin.Kind, mode driver.Mode) string {
	switch {
	case mode == driver.Shared:
		return "read"
	case kind == admin.KindReadWrite:
		return "write"
	}
	return ""
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
