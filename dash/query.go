package dash

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	pageRows = 25
	longFind = 256 // bytes of a search
)

// query says what a page shows.
type query struct {
	page       string // "", "lock", "holders", "event-log", "health"
	find       string
	sort       string
	down       bool
	pageNumber int // the number of the page of rows, from 1
	name       string
	what       string // of the event log: the only kind of event; "" for all
}

// filters returns the kinds of events to which the page Event log can be limited: rare
// ones, for which users search.
func filters() []string {
	return []string{eventLost, eventForced, eventExpired, eventRenewedLate, eventGaveUp}
}

// parseQuery reads the parameters of a request, and ignores those that are not valid.
func parseQuery(page string, v url.Values) query {
	q := query{page: page, pageNumber: 1}
	if page == "lock" {
		q.name = v.Get("name")
		return q
	}
	if page == "health" {
		return q
	}
	q.find = v.Get("q")
	q.find = printable(strings.TrimSpace(q.find[:min(len(q.find), longFind)])) // as names are shown
	if what := v.Get("what"); page == "event-log" && slices.Contains(filters(), what) {
		q.what = what
	}
	q.sort, q.down = strings.CutPrefix(v.Get("sort"), "-")
	switch q.sort {
	case "name", "kind", "holder", "held", "lease", "count", "waiting":
	default:
		q.sort, q.down = "name", false
	}
	if at, err := strconv.Atoi(v.Get("page")); err == nil && at > 1 && at < mostNames {
		q.pageNumber = at
	}
	return q
}

// values returns q as the parameters of an address, without those that have their defaults.
func (q query) values() url.Values {
	v := url.Values{}
	set := func(key, value, without string) {
		if value != without {
			v.Set(key, value)
		}
	}
	sort := q.sort
	if q.down {
		sort = "-" + sort
	}
	set("name", q.name, "")
	set("q", q.find, "")
	set("what", q.what, "")
	set("page", strconv.Itoa(max(q.pageNumber, 1)), "1")
	if sort != "name" {
		set("sort", sort, "")
	}
	return v
}

// link returns the relative address of the page.
func (q query) link() string {
	path := q.page
	if path == "" {
		path = "./"
	}
	if v := q.values().Encode(); v != "" {
		return path + "?" + v
	}
	return path
}

// feed returns the parameters with which a browser asks for updates of the page.
func (q query) feed() string {
	v := q.values()
	v.Set("view", q.page)
	return v.Encode()
}

// sorted returns the same page, sorted by a column. If the page is already sorted by that
// column, the order is reversed.
func (q query) sorted(by string) query {
	q.down = q.sort == by && !q.down
	q.sort, q.pageNumber = by, 1
	return q
}

// only returns the same page with one kind of event.
func (q query) only(what string) query {
	q.what = what
	return q
}

func (q query) onPage(to int) query {
	q.pageNumber = to
	return q
}

// still returns the address of the same page that a browser without JavaScript does not
// reload.
func still(q query) string {
	v := q.values()
	v.Set("still", "1")
	path := q.page
	if path == "" {
		path = "./"
	}
	return path + "?" + v.Encode()
}
