package dash

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	pageRows  = 25
	longFind  = 256        // the most bytes of a search
	firstSort = "-waiting" // the order of the page Locks: names with the most waiters first
)

// query says what a page shows.
type query struct {
	page       string // "", "lock", "holders", "event-log", "health"
	find       string
	sort       string // the field By of the column by which the rows are sorted; a "-" before it reverses the order
	show       string // on the page Locks: which names to show, as in the constants below; "" for all names
	pageNumber int    // the number of the page of rows, from 1
	name       string
	what       string // on the page Event log: the only kind of event to show; "" for all kinds
}

// The names to which the page Locks can be limited.
const (
	showHeld      = "held"      // somebody holds the name
	showContended = "contended" // somebody waits for the name
	showEnding    = "ending"    // a lease of the name ends soon, see endsSoon
)

// showable returns the names of these limits, in the order of the figures above the table.
func showable() []string { return []string{showHeld, showContended, showEnding} }

// filters returns the kinds of events to which the page Event log can be limited: rare
// ones, for which users search.
func filters() []string {
	return []string{"lost", "forced", "expired", "renewed late", "gave up"}
}

// parseQuery reads the parameters of a request, and ignores parameters that are not valid.
func parseQuery(page string, v url.Values) query {
	q := query{page: page, sort: firstSort, pageNumber: 1}
	if page == "lock" {
		q.name = v.Get("name")
		return q
	}
	if page == "health" {
		return q
	}
	q.find = v.Get("q")
	q.find = printable(strings.TrimSpace(q.find[:min(len(q.find), longFind)])) // the form in which pages show names
	if what := v.Get("what"); page == "event-log" && slices.Contains(filters(), what) {
		q.what = what
	}
	if show := v.Get("show"); page == "" && slices.Contains(showable(), show) {
		q.show = show
	}
	if by := strings.TrimPrefix(v.Get("sort"), "-"); slices.ContainsFunc(columns(), func(c column) bool { return c.By == by }) {
		q.sort = v.Get("sort")
	}
	if at, err := strconv.Atoi(v.Get("page")); err == nil && at > 1 && at < mostNames {
		q.pageNumber = at
	}
	return q
}

// values returns q as the parameters of an address, without the parameters that have their
// defaults.
func (q query) values() url.Values {
	v := url.Values{}
	set := func(key, value, without string) {
		if value != without {
			v.Set(key, value)
		}
	}
	set("name", q.name, "")
	set("q", q.find, "")
	set("what", q.what, "")
	set("show", q.show, "")
	set("page", strconv.Itoa(q.pageNumber), "1")
	set("sort", q.sort, firstSort)
	return v
}

// link returns the relative address of the page.
func (q query) link() string { return q.address(q.values()) }

// still returns the address of the same page with a parameter that stops the page from
// reloading in a browser without JavaScript.
func (q query) still() string {
	v := q.values()
	v.Set("still", "1")
	return q.address(v)
}

func (q query) address(v url.Values) string {
	path := cmp.Or(q.page, "./")
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// feed returns the parameters with which a browser asks for updates of the page.
func (q query) feed() string {
	v := q.values()
	v.Set("view", q.page)
	return v.Encode()
}

// sorted returns the query for the same page, sorted by the column `by`. If q is already
// sorted by that column, sorted reverses the order. The column Waiting begins with the most
// waiters.
func (q query) sorted(by string) query {
	reversed := "-" + by
	switch {
	case q.sort == by, by == "waiting" && q.sort != reversed:
		q.sort = reversed
	default:
		q.sort = by
	}
	q.pageNumber = 1
	return q
}

// showing returns the query for the same page, limited to the names that `show` says.
func (q query) showing(show string) query {
	q.show, q.pageNumber = show, 1
	return q
}

func (q query) onPage(to int) query {
	q.pageNumber = to
	return q
}
