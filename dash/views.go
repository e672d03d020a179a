package dash

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	mostViews   = 64  // the most pages that are kept up to date at once
	mostStreams = 256 // the most browsers that are notified of changes at once
)

// views are the pages that are open in browsers. Browsers with the same page share a view.
type views struct {
	mu      sync.Mutex
	byQuery map[query]*view
	readers []*reader // the one that began first comes first

	// number is the number of the last frame. It starts with the time in ms, so that it is above
	// all numbers of an earlier process.
	number int64
}

// view is one page that is kept up to date.
type view struct {
	query  query
	viewer string        // the user who asked for the view first
	ended  chan struct{} // closed when another view replaces it

	// The mutex views.mu guards the fields below.
	readers int       // browsers that are notified of changes
	asked   time.Time // when a browser last asked for the view
	names   []string  // the names in the rows of the page
	detail  detail    // what the page of a lock shows
	pieces  map[string]piece
	first   int64         // the number of the first frame of the view
	last    frame         // the last frame, without HTML
	changed chan struct{} // closed with the next frame
}

// reader is a browser that is notified of the changes of a view.
type reader struct {
	*view
	viewer  string
	dropped chan struct{} // closed when another reader takes its place
}

// piece is an element of a page, and the number of the frame that brought its present HTML.
type piece struct {
	html   string
	number int64
}

// detail is what the store answered about one name.
type detail struct {
	admin.Detail
	err  error
	seen time.Time
}

// frame is an update of a page. HTML has the HTML of elements by their identifiers. If the
// page has a table, Order has the identifiers of all rows, in their order.
type frame struct {
	ID    int64             `json:"id"`
	Now   int64             `json:"now"`  // the server's time, in ms since 1970
	AsOf  int64             `json:"asOf"` // when the store last answered, in ms since 1970
	Full  bool              `json:"full,omitempty"`
	Order []string          `json:"order,omitempty"`
	HTML  map[string]string `json:"html,omitempty"`
}

// open returns the view of q. It returns nil if there are too many views.
func (v *views) open(q query, viewer string) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of(q, viewer)
}

// join returns a reader of the view of q. The caller must call leave later. It returns nil if
// there are too many readers or views.
func (v *views) join(q query, viewer string) *reader {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.of(q, viewer)
	if w == nil || len(v.readers) >= mostStreams && !v.dropReader(viewer) {
		return nil
	}
	r := &reader{view: w, viewer: viewer, dropped: make(chan struct{})}
	v.readers = append(v.readers, r)
	w.readers++
	return r
}

// of does what open does. The caller holds v.mu.
func (v *views) of(q query, viewer string) *view {
	w := v.byQuery[q]
	if w == nil {
		if len(v.byQuery) >= mostViews && !v.makeRoom(viewer) {
			return nil
		}
		w = &view{query: q, viewer: viewer, ended: make(chan struct{}), changed: make(chan struct{})}
		v.byQuery[q] = w
	}
	w.asked = time.Now()
	return w
}

// dropReader ends the oldest reader of the user with the most readers, so that the user
// `viewer` can have another one. It does so only if `viewer` has less than half as many, and
// reports whether it did. The caller holds v.mu.
func (v *views) dropReader(viewer string) bool {
	counts := map[string]int{}
	for _, r := range v.readers {
		counts[r.viewer]++
	}
	most := v.readers[0]
	for _, r := range v.readers {
		if counts[r.viewer] > counts[most.viewer] {
			most = r
		}
	}
	if 2*counts[viewer] >= counts[most.viewer] {
		return false
	}
	v.remove(most)
	close(most.dropped)
	return true
}

// remove ends the use of a view by r, unless that has ended already. The caller holds v.mu.
func (v *views) remove(r *reader) {
	at := slices.Index(v.readers, r)
	if at < 0 {
		return
	}
	v.readers = slices.Delete(v.readers, at, at+1)
	r.view.readers--
	r.asked = time.Now()
}

// makeRoom drops a view so that the user `viewer` can have another view. It reports whether it
// dropped a view. If there are views that no browser watches, makeRoom drops the view whose
// last request is the oldest. If browsers watch all views, it drops a view of the user with the
// most views, but only if `viewer` has less than half as many views. The caller holds v.mu.
func (v *views) makeRoom(viewer string) bool {
	counts := map[string]int{}
	var idle, most *view
	for _, w := range v.byQuery {
		counts[w.viewer]++
		if w.readers == 0 && (idle == nil || w.asked.Before(idle.asked)) {
			idle = w
		}
	}
	for _, w := range v.byQuery {
		if most == nil || counts[w.viewer] > counts[most.viewer] {
			most = w
		}
	}
	if idle == nil {
		if 2*counts[viewer] >= counts[most.viewer] {
			return false
		}
		idle = most
	}
	delete(v.byQuery, idle.query)
	close(idle.ended)
	return true
}

// leave ends the use of a view by r.
func (v *views) leave(r *reader) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.remove(r)
}

// wanted returns two lists: the names on the pages with several locks, and the views of the
// pages with one lock. The caller polls the locks in both lists. wanted also drops a view that
// no browser watches, if no browser has asked for the view within idleTime.
func (v *views) wanted(now time.Time) (names []string, details []*view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for q, w := range v.byQuery {
		switch {
		case w.readers == 0 && now.Sub(w.asked) > idleTime:
			delete(v.byQuery, q)
		case q.page == "lock":
			details = append(details, w)
		default:
			names = append(names, w.names...)
		}
	}
	slices.SortFunc(details, func(a, b *view) int { return a.detail.seen.Compare(b.detail.seen) })
	return names, details
}

// finds returns the texts, in lower case, for which open pages search.
func (v *views) finds() (texts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for q := range v.byQuery {
		if q.find != "" {
			texts = append(texts, strings.ToLower(q.find))
		}
	}
	return texts
}

// refreshDetail returns the detail that w shows of its lock. If that detail is older than
// `age`, refreshDetail first asks the store again, as far as the budget allows.
func (d *Dashboard) refreshDetail(ctx context.Context, w *view, age time.Duration) detail {
	shown := d.views.detailOf(w)
	if time.Since(shown.seen) <= age || d.budget.take(time.Now(), pollsPerDetail, pollsPerDetail) == 0 {
		return shown
	}
	answer, err := d.detail(ctx, w.query.name)
	if ctx.Err() != nil {
		return shown
	}
	if err == nil {
		shown.Detail = answer
	}
	shown.err, shown.seen = err, time.Now()
	d.views.mu.Lock()
	defer d.views.mu.Unlock()
	w.detail = shown
	return shown
}

func (v *views) detailOf(w *view) detail {
	v.mu.Lock()
	defer v.mu.Unlock()
	return w.detail
}

// read returns the views that browsers watch. It also increments v.number, which becomes the
// number of the next frame of these views.
func (v *views) read() []*view {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.number++
	var list []*view
	for _, w := range v.byQuery {
		if w.readers > 0 {
			list = append(list, w)
		}
	}
	return list
}

// watched reports whether any browser watches a page.
func (v *views) watched() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.readers) > 0
}

// publish sends each browser the changes of its page.
func (d *Dashboard) publish() {
	for _, w := range d.views.read() {
		c := d.content(w.query, extras{detail: d.views.detailOf(w)})
		html := map[string]string{}
		for _, p := range slices.Concat(c.parts, c.rows) {
			html[p.ID] = render(d.updates, p.Template, p.Data)
		}
		d.views.put(w, c, html, d.store.now().answered)
	}
}

// put makes the next frame of w. The page has the content c now, and `html` has its elements by
// their identifiers. The parameter `asOf` is the time when the store last answered, or zero if
// the store has never answered.
func (v *views) put(w *view, c content, html map[string]string, asOf time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	pieces := make(map[string]piece, len(html))
	for id, text := range html {
		p, had := w.pieces[id]
		if !had || p.html != text {
			p = piece{text, v.number}
		}
		pieces[id] = p
	}
	w.pieces, w.names = pieces, c.names
	w.first = cmp.Or(w.first, v.number)
	w.last = frame{ID: v.number}
	if !asOf.IsZero() {
		w.last.AsOf = asOf.UnixMilli()
	}
	for _, row := range c.rows {
		w.last.Order = append(w.last.Order, row.ID)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// since returns the changes after the frame with the number id, and a channel that is closed
// when the next frame is there. If w never had a frame with that number, since returns the
// whole page. If nothing has changed, or if w has no frame yet, it returns the zero frame.
func (v *views) since(w *view, id int64) (frame, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := w.last
	if f.ID == 0 || f.ID == id {
		return frame{}, w.changed
	}
	f.Now, f.Full, f.HTML = time.Now().UnixMilli(), id < w.first || id > f.ID, map[string]string{}
	for key, p := range w.pieces {
		if f.Full || p.number > id {
			f.HTML[key] = p.html
		}
	}
	return f, w.changed
}
