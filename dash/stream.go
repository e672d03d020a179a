package dash

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	commentEvery = 15 * time.Second // so that proxies do not close the stream
	streamLife   = 10 * time.Minute // the browser then connects again, so that Options.Authorize is called again
	writeTimeout = 10 * time.Second
)

// stream sends server-sent events: first the whole page, then its changes. A browser that
// connects again with Last-Event-ID gets the changes that it has missed.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	v := d.enter(w, r)
	if v == nil {
		return
	}
	defer d.views.leave(v)

	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	since := r.URL.Query().Get("since") // set by a tab that was hidden for a while
	last := cmp.Or(r.Header.Get("Last-Event-ID"), since)
	id, _ := strconv.ParseInt(last, 10, 64)
	d.follow(w, r, v, id)
}

// follow sends the frames of v that come after the frame with the number id, until the stream
// ends.
func (d *Dashboard) follow(w http.ResponseWriter, r *http.Request, v *reader, id int64) {
	ctx, cancel := context.WithTimeout(r.Context(), streamLife)
	defer cancel()
	text := "retry: 2000\n\n"
	for text == "" || send(w, text) == nil {
		f, changed := d.views.since(v.view, id)
		if f.ID != 0 {
			id = f.ID
			data, _ := json.Marshal(f) // never fails: there are only numbers and strings
			text = fmt.Sprintf("id: %d\ndata: %s\n\n", id, data)
			continue
		}
		select {
		case <-changed:
			text = ""
		case <-time.After(commentEvery):
			text = ": still here\n\n"
		case <-ctx.Done():
			return
		case <-v.ended:
			return
		case <-v.dropped:
			return
		case <-d.done:
			return
		}
	}
}

// send writes a text to a browser that may be slow or disconnected.
func send(w http.ResponseWriter, text string) error {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter has a deadline
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return control.Flush()
}

// poll answers with one frame, for browsers that cannot use a stream. The parameter `since` of
// the request is the number of a frame, and the answer has the changes after it. If there are
// no changes, poll waits for them, for some seconds at most.
func (d *Dashboard) poll(w http.ResponseWriter, r *http.Request) {
	v := d.enter(w, r)
	if v == nil {
		return
	}
	defer d.views.leave(v)
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	f, changed := d.views.since(v.view, since)
	if f.ID == 0 {
		select {
		case <-changed:
		case <-time.After(5 * time.Second):
		case <-v.dropped:
		case <-r.Context().Done():
		case <-d.done:
		}
		f, _ = d.views.since(v.view, since)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(f)
}

// enter returns a reader of the view that a browser asks for; the caller must call views.leave. If the
// dashboard does not show that page, or if there are too many browsers, enter answers with an
// error and returns nil.
func (d *Dashboard) enter(w http.ResponseWriter, r *http.Request) *reader {
	values := r.URL.Query()
	q := parseQuery(values.Get("view"), values)
	if d.contentOf(q.page) == nil || q.page == "lock" && !d.shown(q.name) {
		http.Error(w, "there is no such view", http.StatusNotFound)
		return nil
	}
	v := d.views.join(q, d.viewer(r))
	if v == nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many browsers show the dashboard at the same time; try again later", http.StatusServiceUnavailable)
	}
	return v
}
