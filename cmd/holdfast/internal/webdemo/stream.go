package webdemo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	frameEvery   = 100 * time.Millisecond // at most
	beatEvery    = 5 * time.Second        // so that the page can tell a dead stream from one on which nothing happens
	writeTimeout = 10 * time.Second
)

// frame is what browsers are sent: parts of the page that have changed.
type frame struct {
	Now   int64             `json:"now"` // by the server's clock
	Parts map[string]string `json:"parts"`
}

// events sends server-sent events: the whole page, then what changes. A browser
// that comes back gets everything again; it is little.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	defer s.viewers.Add(-1)
	if s.viewers.Add(1) > maxViewers {
		fail(w, r, http.StatusServiceUnavailable, fmt.Errorf("%d browsers are watching already", maxViewers))
		return
	}
	s.look(r.Context())
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no")
	send := func(text string) error {
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter has one
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return c.Flush()
	}
	if send("retry: 1000\n\n") != nil {
		return
	}
	s.follow(r, send)
}

// follow sends what changes until somebody ends it.
func (s *site) follow(r *http.Request, send func(string) error) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	sent := map[string]string{}
	due := true
	for {
		now, version, changed := s.board.read()
		f := frame{Now: time.Now().UnixMilli(), Parts: map[string]string{}}
		for id, html := range s.front.parts(s.view(now)) {
			if sent[id] != html {
				sent[id], f.Parts[id] = html, html
			}
		}
		if due || len(f.Parts) > 0 {
			text, err := json.Marshal(f)
			if err != nil || send(fmt.Sprintf("id: %d\ndata: %s\n\n", version, text)) != nil {
				return
			}
		}
		if !retry.Sleep(r.Context(), frameEvery) {
			return
		}
		due = false
		select {
		case <-changed:
		case <-beat.C:
			due = true
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}
