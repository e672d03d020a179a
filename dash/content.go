package dash

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"time"
)

const (
	firstWait  = 600 * time.Millisecond // the longest time that a page waits for a scan to find enough locks
	noJSReload = 5                      // in seconds: how often a browser without JavaScript loads the page again
)

// content is a page without the frame that all pages have.
type content struct {
	title string
	page  string // the name of the template that shows the page
	data  any
	parts []part   // the elements of the page that may change
	rows  []part   // the rows of the table, if the page has a table
	names []string // the names that the page shows; the watcher polls these names
}

// part is an element of a page that may change.
type part struct {
	ID, Template string
	Data         any
}

// extras has what some pages show beside the table and the event log. In an update of a page
// only the detail is set, because browsers of several users may show the page.
type extras struct {
	detail    detail // of the lock, on the page of a lock
	mayUnlock bool
	findings  []Finding
	checked   time.Time
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
	Health  healthLink
	Home    string // on the page of an error: the address of the page Locks
	Frozen  string // for a browser without JavaScript: the address of the page that does not reload
}

// statusData is the state of the store.
type statusData struct {
	AsOf    time.Time
	Trouble string
	Bad     bool
}

// contentOf returns the function that makes the content of a page, or nil if there is no such
// page.
func (d *Dashboard) contentOf(page string) func(query, extras) content {
	switch page {
	case "":
		return d.locksContent
	case "lock":
		return d.lockContent
	case "holders":
		return d.holdersContent
	case "event-log":
		return d.eventLogContent
	case "health":
		return d.healthContent
	}
	return nil
}

// content makes the content of a page.
func (d *Dashboard) content(q query, e extras) content {
	c := d.contentOf(q.page)(q, e)
	c.parts = append(c.parts, part{"trouble", "trouble", d.status()}, part{"health-link", "health-link", d.findings.linkOn(q.page)})
	return c
}

// showPage answers with a whole page.
func (d *Dashboard) showPage(w http.ResponseWriter, r *http.Request) {
	q := parseQuery(r.URL.Path[len(d.base):], r.URL.Query())
	if q.page == "lock" && !d.shown(q.name) {
		d.fail(w, r, http.StatusNotFound, notShown)
		return
	}
	c := d.compose(r, q)
	f := frameData{Page: q.page, Feed: q.feed()}
	if r.URL.Query().Get("still") == "" {
		f.Refresh, f.Frozen = noJSReload, q.still()
	}
	d.writePage(w, r, http.StatusOK, c, f)
}

// compose makes the content of a page. It also keeps the page up to date for a while, because
// a browser without JavaScript will load it again. If the user followed a link from another
// site, compose only makes the content.
func (d *Dashboard) compose(r *http.Request, q query) content {
	if q.page != "lock" {
		d.prepare(r.Context())
	}
	v := &view{query: q}
	if !foreign(r) {
		if kept := d.views.open(q, d.viewer(r)); kept != nil {
			v = kept
		}
	}
	var e extras
	switch q.page {
	case "lock":
		e.detail, e.mayUnlock = d.refreshDetail(r.Context(), v, time.Second), d.mayUnlock(r)
	case "health":
		if d.options.Findings != nil {
			e.findings, e.checked = d.findings.get(r.Context(), findingsLife, d.options.Findings)
		}
	}
	c := d.content(q, e)
	if d.refreshNames(r.Context(), c.names) {
		c = d.content(q, e)
	}
	d.views.mu.Lock()
	defer d.views.mu.Unlock()
	v.names = c.names // the watcher polls these names from now on
	return c
}

// prepare waits until a scan has found more names than a page shows, or until the first
// complete scan has ended. It waits at most for the time firstWait.
func (d *Dashboard) prepare(ctx context.Context) {
	select {
	case <-d.table.first:
	case <-time.After(firstWait):
	case <-ctx.Done():
	}
}

// status describes the state of the store.
func (d *Dashboard) status() statusData {
	c := d.store.now()
	s := statusData{AsOf: c.answered}
	switch {
	case errors.Is(c.err, errors.ErrUnsupported):
		s.Trouble, s.Bad = "This store cannot list its locks.", true
	case !c.failing.IsZero() && c.answered.IsZero():
		s.Trouble, s.Bad = "The store has not answered since "+clock(c.failing)+": "+errorText(c.err), true
	case !c.failing.IsZero():
		s.Trouble, s.Bad = "As of "+clock(c.answered)+". The store has not answered since "+clock(c.failing)+": "+errorText(c.err), true
	case c.err != nil:
		s.Trouble = "Some locks could not be read: " + errorText(c.err)
	}
	return s
}

// storeName returns the name of the store, for pages.
func (d *Dashboard) storeName() string {
	return short(printable(cmp.Or(d.options.Store, d.console.Info().Name)), longName)
}

// writePage sends a page with the content c in the frame f. It sets the fields of f that all
// pages have.
func (d *Dashboard) writePage(w http.ResponseWriter, r *http.Request, status int, c content, f frameData) {
	f.Title, f.Store, f.Link, f.Status, f.Health = c.title, d.storeName(), d.options.Link, d.status(), d.findings.linkOn(f.Page)
	f.Body = template.HTML(render(d.pages, c.page, c.data)) //nolint:gosec // every byte of it comes from html/template
	d.write(w, r, status, "page", f)
}

// write sends the output of a template.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	text := render(d.pages, name, data)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text))
	}
}

// render returns the output of a template.
func render(templates *template.Template, name string, data any) string {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a template that does not fit its data
	}
	return b.String()
}
