package dash

import (
	"net"
	"net/http"
)

// Role is the set of actions that a request may do.
type Role int

const (
	// None may do nothing: its requests get the status 403.
	None Role = iota
	// Viewer may read the pages.
	Viewer
	// Operator may read the pages, and end holds if Options.AllowUnlock is set.
	Operator
)

// mayUnlock reports whether r may force locks.
func (d *Dashboard) mayUnlock(r *http.Request) bool {
	return d.options.AllowUnlock && d.options.Authorize(r) >= Operator
}

// user returns the name of the user of r, or "" if the user has no name.
func (d *Dashboard) user(r *http.Request) string { return printable(d.options.User(r)) }

// viewing returns a handler that calls `serve`, and counts a viewer meanwhile. It refuses
// requests that another site has made a browser send. The other site could not read the answer,
// but such a request would take one of the limited places for browsers. If `linked` is true, a
// user may follow a link from another site to the page. Other sites still cannot load the page
// as an image or in a frame.
func (d *Dashboard) viewing(serve http.HandlerFunc, linked bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed := linked && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
		if foreign(r) && !followed {
			http.Error(w, "This request came from another site.", http.StatusForbidden)
			return
		}
		leave, ok := d.join()
		if !ok {
			http.Error(w, "closing", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		serve(w, r)
	})
}

// foreign reports whether another site has made a browser send r, as far as the browser
// reports it. Old browsers never report it. No browser reports it over plain HTTP to another
// machine.
func foreign(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from == "cross-site" || from == "same-site"
}

// viewer identifies the user of a browser, as far as possible, so that one user cannot take
// all views.
func (d *Dashboard) viewer(r *http.Request) string { return d.user(r) + " " + address(r) }

// address returns the network address from which r came, without the port.
func address(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
