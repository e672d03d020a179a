package dash

import (
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

// ServeHTTP answers one request. A stream of updates ends with the context of the
// request, or with Close.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webpage.Protect(w.Header())
	if d.options.Authorize(r) < Viewer {
		http.Error(w, "You may not see this page.", http.StatusForbidden)
		return
	}
	if r.URL.Path+"/" == d.base {
		http.Redirect(w, r, d.base, http.StatusMovedPermanently)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, d.base)
	serve := d.route(path)
	if !ok || serve == nil {
		d.fail(w, r, http.StatusNotFound, "There is no such page.")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && (r.Method != http.MethodPost || path != "unlock") {
		w.Header().Set("Allow", "GET, HEAD")
		d.fail(w, r, http.StatusMethodNotAllowed, "This page accepts no data: it can only be read.")
		return
	}
	d.protect.Handler(serve).ServeHTTP(w, r)
}

// route returns the handler for a path below the base, or nil if there is no such page. It
// compares the whole path, and reads no file system.
func (d *Dashboard) route(path string) http.Handler {
	if d.contentOf(path) != nil {
		return d.viewing(d.showPage, true)
	}
	switch path {
	case "unlock":
		return d.viewing(d.unlock, true)
	case "events":
		return d.viewing(d.stream, false)
	case "frame":
		return d.viewing(d.poll, false)
	case "favicon.ico":
		return d.static["icon.svg"]
	}
	if name, ok := strings.CutPrefix(path, "static/"); ok {
		if file, ok := d.static[name]; ok {
			return file
		}
	}
	return nil
}

// fail shows an error, as a page of its own.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	f := frameData{Title: http.StatusText(status), Store: d.storeName(), Body: message, Home: d.base}
	if path, ok := strings.CutPrefix(r.URL.Path, d.base); ok && !strings.Contains(path, "/") {
		f.Home = "./" // a proxy may have mapped the base to another path
	}
	d.write(w, r, status, "error", f)
}
