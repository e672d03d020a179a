package dash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	commentEvery = 15 * time.Second // so that proxies do not close the stream
	streamLife   = 10 * time.Minute // then the browser connects again, and Options.Authorize is called again
	writeTimeout = 10 * time.Second
)

// stream sends server-sent events: first the whole page, then its changes. A browser that
// connects again with Last-Event-ID gets what it has missed.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	v, leave := d.enter(w, r, "30")
	if v == nil {
		return
	}
	defer leave()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("since") // of a tab that was hidden for a while
	}
	id, _ := strconv.ParseInt(last, 10, 64)
	s := newSender(w)
	if s.send("retry: 2000\n\n") != nil {
		return
	}
	d.follow(r, v, id, s)
}

// follow sends the frames of v after id until the stream ends.
func (d *Dashboard) follow(r *http.Request, v *view, id int64, s *sender) {
	life := time.NewTimer(streamLife)
	defer life.Stop()
	comment := time.NewTimer(commentEvery)
	defer comment.Stop()
	for {
		f, changed := d.views.since(v, id)
		if f.ID != 0 {
			id = f.ID
			if s.frame(f) != nil {
				return
			}
			comment.Reset(commentEvery)
		}
		select {
		case <-changed:
		case <-comment.C:
			if s.send(": still here\n\n") != nil {
				return
			}
			comment.Reset(commentEvery)
		case <-life.C:
			return
		case <-r.Context().Done():
			return
		case <-v.ended:
			return
		case <-d.done:
			return
		}
	}
}

// poll answers with one frame, for browsers that cannot use a stream: the changes after the
// frame with the number since. If there are none, it waits for some seconds.
func (d *Dashboard) poll(w http.ResponseWriter, r *http.Request) {
	v, leave := d.enter(w, r, "")
	if v == nil {
		return
	}
	defer leave()
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	f, changed := d.views.since(v, since)
	if f.ID == 0 {
		timer := time.NewTimer(5 * time.Second)
		defer timer.Stop()
		select {
		case <-changed:
		case <-timer.C:
		case <-r.Context().Done():
		case <-d.done:
		}
		f, _ = d.views.since(v, since)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(f)
}

// enter returns the view that a browser asks for, and a function for the caller to call when
// it has finished with the view. If the view is nil, enter has answered with an error. If
// there are too many browsers, the parameter retry is the Retry-After of that answer.
func (d *Dashboard) enter(w http.ResponseWriter, r *http.Request, retry string) (v *view, leave func()) {
	end, ok := d.join()
	if !ok {
		http.Error(w, "closing", http.StatusServiceUnavailable)
		return nil, nil
	}
	q, ok := d.viewed(r)
	if !ok {
		end()
		http.Error(w, "no such view", http.StatusNotFound)
		return nil, nil
	}
	if v = d.views.open(q, d.viewer(r), true); v == nil {
		end()
		if retry != "" {
			w.Header().Set("Retry-After", retry)
		}
		http.Error(w, "too many browsers look at once", http.StatusServiceUnavailable)
		return nil, nil
	}
	return v, func() {
		d.views.leave(v)
		end()
	}
}

// viewed returns the page whose updates a browser wants. It returns false if the dashboard
// does not show that page.
func (d *Dashboard) viewed(r *http.Request) (query, bool) {
	values := r.URL.Query()
	q := parseQuery(values.Get("view"), values)
	switch q.page {
	case "", "holders", "event-log", "health":
		return q, true
	case "lock":
		return q, d.shown(q.name)
	default:
		return q, false
	}
}

// sender writes to a browser that may be slow or disconnected.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newSender(w http.ResponseWriter) *sender {
	return &sender{w: w, control: http.NewResponseController(w)}
}

func (s *sender) frame(f frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return s.send(fmt.Sprintf("id: %d\ndata: %s\n\n", f.ID, text))
}

func (s *sender) send(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter has one
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
