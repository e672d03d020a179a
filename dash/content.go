package dash

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"time"
)

const (
	firstWait  = 600 * time.Millisecond // for the first page of locks
	noJSReload = 5                      // seconds
)

// content is a page without the frame that all pages have.
type content struct {
	title string
	page  string // the template
	data  any
	parts []part   // the pieces of it that may change
	rows  []part   // the rows of its table
	names []string // the names that it shows; they are polled
}

// part is an element of a page that may change.
type part struct {
	ID, Template string
	Data         any
}

// frameData is what all pages show around their content.
type frameData struct {
	Title   string
	Store   string // the name of the store
	Page    string
	Link    Link
	Body    any // rendered content, or the message of an error
	Feed    string
	Refresh int // seconds after which a browser without JavaScript loads the page again; 0 if never
	Status  statusData
	Home    string // on the page of an error: the address of the first page
	Frozen  string // for a browser without JavaScript: the address of the page that does not reload
}

// statusData is the state of the store.
type statusData struct {
	AsOf    stamp
	Trouble string
	Bad     bool
}

// showPage answers with a whole page.
func (d *Dashboard) showPage(w http.ResponseWriter, r *http.Request) {
	leave, ok := d.join()
	if !ok {
		http.Error(w, "closing", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	q := parseQuery(r.URL.Path[len(d.base):], r.URL.Query())
	if q.page == "lock" && !d.shown(q.name) {
		d.fail(w, r, http.StatusNotFound, "This dashboard does not show a lock with that name.")
		return
	}
	d.prepare(r.Context(), q)
	c := d.compose(r, q)
	f := frameData{Title: c.title, Page: q.page, Feed: q.feed(), Status: d.status(false)}
	if r.URL.Query().Get("still") == "" {
		f.Refresh, f.Frozen = noJSReload, still(q)
	}
	d.writeFramed(w, r, http.StatusOK, c, f)
}

// writeStill sends a page that does not change while it is shown.
func (d *Dashboard) writeStill(w http.ResponseWriter, r *http.Request, status int, c content) {
	d.writeFramed(w, r, status, c, frameData{Title: c.title, Page: c.page, Status: d.status(false)})
}

func (d *Dashboard) writeFramed(w http.ResponseWriter, r *http.Request, status int, c content, f frameData) {
	var body bytes.Buffer
	if err := d.pages.ExecuteTemplate(&body, c.page, c.data); err != nil {
		panic(err) // a template that does not fit its data
	}
	f.Body, f.Store, f.Link = trusted(body.String()), d.storeName(), d.options.Link
	d.write(w, r, status, "page", f)
}

// storeName returns the name of the store, for pages.
func (d *Dashboard) storeName() string {
	return short(printable(cmp.Or(d.options.Store, d.console.Info().Name)), longName)
}

// compose makes the content of a page and keeps it up to date for a while, because a browser
// without JavaScript will load it again. If a link of another site led to the page, the page
// is shown, but not kept up to date.
func (d *Dashboard) compose(r *http.Request, q query) content {
	var v *view
	if !foreign(r) {
		v = d.views.open(q, d.viewer(r), false)
	}
	if q.page == "lock" {
		if v == nil {
			v = &view{query: q}
		}
		if d.views.stale(v) && d.budget.takeAll(time.Now(), pollsPerDetail) {
			v.refresh(r.Context(), d)
		}
		c := d.content(q, d.views.detailOf(v), false)
		c.data = d.lockData(q.name, d.views.detailOf(v), false, d.mayUnlock(r))
		return c
	}
	c := d.content(q, detail{}, false)
	if len(d.table.stale(c.names, time.Now().Add(-time.Second))) > 0 {
		d.refreshNames(r.Context(), c.names)
		c = d.content(q, detail{}, false)
	}
	if v != nil {
		d.views.show(v, c.names)
	}
	if q.page == "health" {
		c.data = d.healthPage(r.Context())
	}
	return c
}

// prepare waits until the table can fill a page, or was complete once, but at most for
// firstWait. The page of one lock does not wait.
func (d *Dashboard) prepare(ctx context.Context, q query) {
	if q.page == "lock" {
		return
	}
	timer := time.NewTimer(firstWait)
	defer timer.Stop()
	select {
	case <-d.table.ready():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// content makes the content of a page. If live is true, it leaves out the times that a
// browser counts by itself, so that the content stays the same while no lock changes.
func (d *Dashboard) content(q query, shown detail, live bool) content {
	var c content
	switch q.page {
	case "lock":
		c = d.lockContent(q, shown, live)
	case "holders":
		c = d.holdersContent(live)
	case "event-log":
		c = d.eventLogContent(q, live)
	case "health":
		c = d.healthContent(live)
	default:
		c = d.locksContent(q, live)
	}
	c.parts = append(c.parts, part{"trouble", "trouble", d.status(live)})
	return c
}

// status describes the state of the store.
func (d *Dashboard) status(live bool) statusData {
	c := d.store.now()
	s := statusData{AsOf: stamped(c.answered, live)}
	switch {
	case c.unsupported():
		s.Trouble, s.Bad = "This store cannot list its locks.", true
	case !c.failing.IsZero():
		s.Bad = true
		s.Trouble = "No answer since " + clock(c.failing) + ": " + short(printable(c.err.Error()), 300)
		if !c.answered.IsZero() {
			s.Trouble = "As of " + clock(c.answered) + ", no answer since " + clock(c.failing) + ": " + short(printable(c.err.Error()), 300)
		}
	case c.err != nil:
		s.Trouble = "Some locks could not be read: " + short(printable(c.err.Error()), 300)
	}
	return s
}

// write sends a page.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var b bytes.Buffer
	if err := d.pages.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a template that does not fit its data
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes())
	}
}
