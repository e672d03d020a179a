package dash

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	mostViews   = 64  // different pages that are kept up to date at once
	mostStreams = 256 // browsers that are notified of changes at once
	keptFrames  = 64  // frames that a view keeps; a browser that missed more gets the whole page
)

// views are the pages that are open in browsers. Browsers with the same page share a view.
type views struct {
	mu      sync.Mutex
	byQuery map[query]*view
	streams int
	number  int64 // of the last frame
}

// view is one page that is kept up to date.
type view struct {
	query  query
	viewer string        // the user who asked for it first
	ended  chan struct{} // closed when another view replaces it

	// Under views.mu:
	readers int       // browsers that are notified of changes
	asked   time.Time // when a browser last asked for it
	names   []string  // of its rows
	frames  []frame   // the last ones
	shown   map[string]string
	order   []string
	changed chan struct{} // closed with the next frame

	// detail is what the page of a lock shows, under views.mu.
	detail detail
}

// detail is what the store answered about one name.
type detail struct {
	admin.Detail
	err  error
	seen time.Time
}

// frame is an update of a page. HTML has elements by their identifiers; Order has
// the rows of the table, if it has one.
type frame struct {
	ID    int64             `json:"id"`
	Now   int64             `json:"now"`  // the server's time, in ms since 1970
	AsOf  int64             `json:"asOf"` // when the store last answered
	Full  bool              `json:"full,omitempty"`
	Order []string          `json:"order,omitempty"`
	HTML  map[string]string `json:"html,omitempty"`
}

func (v *views) init() {
	v.byQuery = map[query]*view{}
	v.number = time.Now().UnixMilli() // above those of a process before this one
}

// open returns the view of q. If streaming is true, it counts a reader. It returns nil if
// there are too many readers or views.
func (v *views) open(q query, viewer string, streaming bool) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if streaming && v.streams >= mostStreams {
		return nil
	}
	w := v.byQuery[q]
	if w == nil {
		if len(v.byQuery) >= mostViews && !v.makeRoom(viewer) {
			return nil
		}
		w = &view{query: q, viewer: viewer, ended: make(chan struct{}), changed: make(chan struct{})}
		v.byQuery[q] = w
	}
	w.asked = time.Now()
	if streaming {
		w.readers++
		v.streams++
	}
	return w
}

// makeRoom drops a view so that viewer can have another one, and reports whether it could.
// It drops a view that no browser watches, else one of the viewer with the most views, if
// viewer has less than half as many. The caller holds mu.
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

// leave subtracts the reader that open counted.
func (v *views) leave(w *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.readers--
	v.streams--
	w.asked = time.Now()
}

// wanted returns the names on the pages with several locks, and the views of one lock. It
// drops the views that no browser watches, and that none has asked for within idleTime.
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
	slices.Sort(names)
	slices.SortFunc(details, func(a, b *view) int { return a.detail.seen.Compare(b.detail.seen) })
	return slices.Compact(names), details
}

// refresh asks the store again for what the page of a lock shows.
func (w *view) refresh(ctx context.Context, d *Dashboard) {
	shown, err := d.detail(ctx, w.query.name)
	if ctx.Err() != nil {
		return
	}
	d.views.mu.Lock()
	defer d.views.mu.Unlock()
	if err == nil {
		w.detail.Detail = shown
	}
	w.detail.err, w.detail.seen = err, time.Now()
}

// detailOf returns what w shows of its lock.
func (v *views) detailOf(w *view) detail {
	v.mu.Lock()
	defer v.mu.Unlock()
	return w.detail
}

// read returns the pages that browsers watch, and increments the number of the last frame.
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

// publish sends all browsers what has changed on their pages.
func (d *Dashboard) publish() {
	for _, w := range d.views.read() {
		d.update(w)
	}
}

// update makes the next frame of w.
func (d *Dashboard) update(w *view) {
	c := d.content(w.query, d.views.detailOf(w), true)
	html, order := d.parts(c)
	v := &d.views
	v.mu.Lock()
	defer v.mu.Unlock()
	w.put(v.number, html, order, c.names, d.store.now().answered)
}

// put adds a frame with the differences from the last one. The caller holds views.mu.
func (w *view) put(number int64, html map[string]string, order, names []string, asOf time.Time) {
	f := frame{ID: number, Now: time.Now().UnixMilli(), Order: order, HTML: map[string]string{}}
	if !asOf.IsZero() {
		f.AsOf = asOf.UnixMilli()
	}
	for id, text := range html {
		if w.shown[id] != text {
			f.HTML[id] = text
		}
	}
	w.shown, w.order, w.names = html, order, names
	w.frames = append(w.frames[max(0, len(w.frames)-keptFrames+1):len(w.frames):len(w.frames)], f)
	close(w.changed)
	w.changed = make(chan struct{})
}

// since returns the changes after frame id, and a channel that is closed with the next
// frame. If frame id is not kept any more, or there was none, the result is the whole page.
// It is the zero frame if nothing has changed, or if w has no frame yet.
func (v *views) since(w *view, id int64) (frame, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := len(w.frames)
	if n == 0 {
		return frame{}, w.changed
	}
	all := w.frames[n-1]
	all.Now = time.Now().UnixMilli()
	if all.ID == id {
		return frame{}, w.changed
	}
	first := slices.IndexFunc(w.frames, func(f frame) bool { return f.ID == id })
	if first < 0 {
		all.Full, all.HTML = true, w.shown
		return all, w.changed
	}
	all.HTML = map[string]string{}
	for _, f := range w.frames[first+1:] {
		for key, text := range f.HTML {
			all.HTML[key] = text
		}
	}
	return all, w.changed
}

// parts renders the pieces of a page that may change. It returns their HTML by identifier, and
// the identifiers of the rows in their order.
func (d *Dashboard) parts(c content) (html map[string]string, order []string) {
	html = map[string]string{}
	var b bytes.Buffer
	add := func(p part) {
		b.Reset()
		if err := d.pages.ExecuteTemplate(&b, p.Template, p.Data); err != nil {
			panic(err) // a template that does not fit its data
		}
		html[p.ID] = b.String()
	}
	for _, p := range c.parts {
		add(p)
	}
	for _, p := range c.rows {
		add(p)
		order = append(order, p.ID)
	}
	return html, order
}

// stale reports whether the detail of w is more than a second old.
func (v *views) stale(w *view) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Since(w.detail.seen) > time.Second
}

// show sets the names of w, if no browser watches it yet.
func (v *views) show(w *view, names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w.readers == 0 {
		w.names = names
	}
}
