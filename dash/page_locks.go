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
	"github.com/holdfast-go/holdfast/internal/plural"
)

// locksData is the page Locks.
type locksData struct {
	Find    string
	Show    string // the names to which the page is limited, as in query.show
	Sort    string // the column by which the rows are sorted, as in query.sort; "" for the default
	Reset   string // the address of the page without the search
	Columns []column
	Figures figuresData
	Rows    []rowData
	Empty   emptyData
	Pager   pagerData
}

// column is the head of a column of the table.
type column struct {
	By, Name, Link string
	Sorted         string // the value of aria-sort; "" if the table is not sorted by this column
}

// figuresData are the figures above the table, about the names that the search finds. Each one
// leads to its names.
type figuresData struct {
	List    []figure
	Oldest  *figure // the age of the oldest hold; nil if nobody holds a lock
	Since   ago     // the time of the oldest hold
	Looking string  // the state of the scan
}

// figure is a number of names, with the address of the page that shows these names.
type figure struct {
	Value, Label string
	Note         string // more about the figure, such as the number of waiters; may be ""
	Title        string // shown for a mouse that stays on it
	Link         string
	Alarm        bool // an operator should look at these names
	Chosen       bool // the page shows these names
}

// emptyData says why the table has no rows.
type emptyData struct{ Empty, Find, Show, Looking bool }

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
	ID      string
	Kind    string // "" for a mutex
	Count   string // "" for one hold of one holder
	Hold    *holdData
	More    int // the number of holders beside that of Hold
	Waiting int
	Line    bool // some waiters are in a queue
	Hidden  bool // the store does not show whether there are waiters
}

// holdData is one hold.
type holdData struct {
	person
	Mode    string
	Hold    observe.Hold
	Since   ago
	Renewed time.Time // when the last renewal was found; zero if none was found
	Until   time.Time // when the name becomes free, if nobody holds the lock but the name stays taken; else zero
}

func (d *Dashboard) locksContent(q query, _ extras) content {
	var found []observe.State
	all, find, scanned, now := 0, strings.ToLower(q.find), d.table.now(), time.Now()
	for e := range d.table.All {
		if all++; find == "" || matches(e, find) {
			found = append(found, e)
		}
	}
	list := slices.DeleteFunc(slices.Clone(found), func(e observe.State) bool { return !selected(q.show, e, now) })
	arrange(list, q, now)
	pages := max(1, (len(list)+pageRows-1)/pageRows)
	q.pageNumber = min(q.pageNumber, pages)
	page := list[min((q.pageNumber-1)*pageRows, len(list)):min(q.pageNumber*pageRows, len(list))]

	data := locksData{Find: q.find, Show: q.show, Sort: q.values().Get("sort"), Columns: heads(q), Pager: pagerData{At: q.pageNumber, Pages: pages}}
	if q.pageNumber > 1 {
		data.Pager.Previous = q.onPage(q.pageNumber - 1).link()
	}
	if q.pageNumber < pages {
		data.Pager.Next = q.onPage(q.pageNumber + 1).link()
	}
	unsearched := q.onPage(1)
	unsearched.find = ""
	data.Reset = unsearched.link()
	data.Figures = figures(q, all, found, now)
	data.Figures.Looking = scanned.progress()
	data.Empty = emptyData{Empty: len(list) == 0, Find: q.find != "", Show: q.show != "", Looking: scanned.ended.IsZero()}
	c := content{title: "Locks", page: "locks"}
	for _, e := range page {
		row := rowOf(e, now)
		data.Rows = append(data.Rows, row)
		c.rows = append(c.rows, part{row.ID, "row", row})
		c.names = append(c.names, e.Name)
	}
	c.data = data
	c.parts = []part{{"figures", "figures", data.Figures}, {"empty", "empty", data.Empty}, {"pager", "pager", data.Pager}}
	return c
}

// selected reports whether the page Locks shows the lock e when it is limited to `show`.
func selected(show string, e observe.State, now time.Time) bool {
	switch show {
	case showHeld:
		return e.Holders > 0
	case showContended:
		return waiting(e.Record) > 0
	case showEnding:
		return slices.ContainsFunc(e.Holds, func(h observe.Hold) bool { return endsSoon(h, now) })
	}
	return true
}

// figures counts the names that the search of q found. A store has `all` names.
func figures(q query, all int, found []observe.State, now time.Time) figuresData {
	counts := map[string]int{}
	sums := sum(slices.Values(found))
	var oldest *observe.Hold
	var oldestName string // the name with the oldest hold
	for _, e := range found {
		for _, show := range showable() {
			if selected(show, e, now) {
				counts[show]++
			}
		}
		for _, h := range e.Holds {
			if !h.Kept() && (oldest == nil || h.Since.Before(oldest.Since)) {
				oldest, oldestName = &h, e.Name
			}
		}
	}
	names := figure{Value: fmt.Sprint(sums.Names), Label: "names"}
	if sums.Names == 1 {
		names.Label = "name"
	}
	if q.find != "" {
		names.Note = fmt.Sprintf("of %d", all)
	}
	held := figure{Value: fmt.Sprint(counts[showHeld]), Label: "held"}
	if sums.Held > counts[showHeld] {
		held.Note = plural.Count(sums.Held, "hold")
	}
	contended := figure{Value: fmt.Sprint(counts[showContended]), Label: "contended", Alarm: counts[showContended] > 0, Title: "names for which clients wait"}
	switch {
	case sums.Waiting > 0:
		contended.Note = fmt.Sprintf("%d waiting", sums.Waiting)
	case sums.Hidden:
		contended.Value, contended.Title = "–", "the store does not show whether clients wait"
	}
	ending := figure{Value: fmt.Sprint(counts[showEnding]), Label: "ending soon", Alarm: counts[showEnding] > 0, Title: "a renewal is late, or the lease ends within a minute and is not renewed"}

	f := figuresData{List: []figure{names, held, contended, ending}}
	for i, show := range append([]string{""}, showable()...) {
		f.List[i].Link, f.List[i].Chosen = q.showing(show).link(), q.show == show
	}
	if oldest != nil {
		longest := q.showing(showHeld)
		longest.sort = "-held"
		f.Since = ago{oldest.Since, !oldest.Exact}
		f.Oldest = &figure{Label: "oldest hold", Title: "of " + short(printable(oldestName), longName) + "; the longest holds first", Link: longest.link()}
	}
	return f
}

// Table returns the table of the page Locks as HTML, for a page of the program that serves the
// dashboard. It has 25 locks, those with the most waiters first, as the last polls found them.
// If there are none, it says so. Its links are relative to Options.BasePath, and so is its style sheet,
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
func arrange(list []observe.State, q query, now time.Time) {
	first := func(e observe.State) observe.Hold {
		if h := telling(e.Holds, now); h != nil {
			return *h
		}
		return observe.Hold{}
	}
	column, down := strings.CutPrefix(q.sort, "-")
	who := map[string]string{}
	if column == "holder" {
		for _, e := range list {
			if who[e.Name] = "\uffff"; len(e.Holds) > 0 {
				who[e.Name] = people(first(e).Hold).String()
			}
		}
	}
	soon := func(e observe.State) int {
		if selected(showEnding, e, now) {
			return 1
		}
		return 0
	}
	order := map[string]func(a, b observe.State) int{
		"name":   func(a, b observe.State) int { return cmp.Compare(a.Name, b.Name) },
		"holder": func(a, b observe.State) int { return cmp.Compare(who[a.Name], who[b.Name]) },
		"held":   func(a, b observe.State) int { return first(b).Since.Compare(first(a).Since) },
		"lease":  func(a, b observe.State) int { return first(a).Ends.Compare(first(b).Ends) },
		"waiting": func(a, b observe.State) int {
			return cmp.Or(cmp.Compare(waiting(a.Record), waiting(b.Record)), cmp.Compare(soon(a), soon(b)))
		},
	}[column]
	slices.SortFunc(list, func(a, b observe.State) int {
		difference := order(a, b)
		if down {
			difference = -difference
		}
		return cmp.Or(difference, cmp.Compare(a.Name, b.Name))
	})
}

// telling returns the hold of a lock that a row shows: the one whose lease ends first among
// those whose lease ends soon, else the oldest. It returns nil if there is none.
func telling(holds []observe.Hold, now time.Time) *observe.Hold {
	var oldest, ending *observe.Hold
	for i := range holds {
		h := &holds[i]
		if oldest == nil || h.Since.Before(oldest.Since) {
			oldest = h
		}
		if endsSoon(*h, now) && (ending == nil || h.Ends.Before(ending.Ends)) {
			ending = h
		}
	}
	return cmp.Or(ending, oldest)
}

// columns returns the columns of the table. Users can sort the table by each column.
func columns() []column {
	return []column{
		{By: "name", Name: "Name"},
		{By: "waiting", Name: "Waiting"},
		{By: "holder", Name: "Holder"},
		{By: "held", Name: "Held for"},
		{By: "lease", Name: "Lease left"},
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
func rowOf(e observe.State, now time.Time) rowData {
	row := rowData{
		linkData: linkTo(e.Name, longName), ID: identity("r-", e.Name), Count: countOf(e.Record),
		Waiting: waiting(e.Record), Line: e.Waiting > 0, Hidden: waitersHidden(e.Record),
	}
	if e.Kind != admin.KindMutex {
		row.Kind = string(e.Kind)
	}
	if h := telling(e.Holds, now); h != nil {
		hold := holdOf(e, *h)
		row.Hold, row.More = &hold, max(0, e.Holders-1)
	}
	return row
}

// holdOf describes the hold h of the lock e.
func holdOf(e observe.State, h observe.Hold) holdData {
	data := holdData{person: people(h.Hold), Mode: modeOf(e.Kind, h.Mode), Hold: h, Since: ago{h.Since, !h.Exact}}
	if h.Renewals > 0 {
		data.Renewed = h.Ends.Add(-h.Span)
	}
	if h.Kept() {
		data.Until = h.Ends
	}
	return data
}

// LastRenewal is the time that has passed since Renewed.
func (h holdData) LastRenewal() ago { return ago{At: h.Renewed} }

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

// countOf returns what a page shows of the number of holds: the permits of a semaphore, the
// number of a latch or counter, or the hold count of the only holder. It returns "" if that
// count is 1.
func countOf(r admin.Record) string {
	switch r.Kind {
	case admin.KindSemaphore:
		if r.Permits > 0 {
			return fmt.Sprintf("%d of %d", r.Holders, r.Permits)
		}
		return fmt.Sprintf("%d out, %d free", r.Holders, r.Free)
	case admin.KindLatch, admin.KindCounter:
		return fmt.Sprintf("%d left", r.Count)
	}
	if len(r.Holds) == 1 && r.Holders == 1 && r.Holds[0].Holds > 1 {
		return fmt.Sprintf("%d times", r.Holds[0].Holds)
	}
	return ""
}
