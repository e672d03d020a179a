package webdemo

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

// guarded keeps other sites from using somebody's browser against the demo.
func (s *site) guarded(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Protect(w.Header())
		if s.loopback && !local(r.Host) {
			fail(w, r, http.StatusMisdirectedRequest, errors.New("this name is not that of the demo; use the address that it printed"))
			return
		}
		asked := *r
		if changes(r.URL.Path) { // a GET that acts is a write like any other
			asked.Method = http.MethodPost
		}
		if err := protection.Check(&asked); err != nil {
			fail(w, r, http.StatusForbidden, errors.New("this request came from another site"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// changes reports whether a path does more than to show something.
func changes(path string) bool {
	return path != "/" && path != "/events" && path != "/state" && !strings.HasPrefix(path, "/static/")
}

// local reports whether a host is this machine, by a name that nobody else can
// give it: another site's name may have been made to point here.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}
