package open

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// address has the parts of the URL of a store that is not Redis. The scheme is known. Errors
// name the store by its Kind.
type address struct {
	kind               Kind
	scheme             string
	hosts              string // with commas between
	path               string
	username, password string
	query              url.Values
	raw                redisurl.Parts
}

// cut splits a URL into its parts. known has the parameters that the URL may have, or is nil
// if it may have any. Each may be given once.
func cut(kind Kind, raw string, known ...string) (address, error) {
	u, hosts, err := redisurl.Parse(raw)
	if err != nil {
		return address{}, fmt.Errorf("%s %w", kind, errNotURL) // err is about Redis, and u.Parse's own repeats the password
	}
	query, err := redisurl.Query(u.RawQuery)
	if err != nil {
		return address{}, fmt.Errorf("%s %w", kind, errNotURL)
	}
	for name, values := range query {
		switch {
		case known != nil && !slices.Contains(known, name):
			return address{}, fmt.Errorf("%s URL has the unknown parameter %q (known here: %s)", kind, name, strings.Join(known, ", "))
		case len(values) > 1:
			return address{}, fmt.Errorf("%s URL has the parameter %q more than once", kind, name)
		}
	}
	a := address{kind: kind, scheme: u.Scheme, hosts: hosts, path: u.Path, username: u.User.Username(), query: query}
	a.raw, _ = redisurl.Cut(raw)
	a.password, _ = u.User.Password()
	return a, nil
}

var errNotURL = errors.New("URL cannot be taken apart: a /, ?, #, @ or % in a user name or password must be written as %2F, %3F, %23, %40 or %25, and an IPv6 address in brackets")

// addrs returns the hosts, each with its port.
func (a address) addrs(port string) ([]string, error) {
	if a.hosts == "" {
		return nil, fmt.Errorf("%s URL names no host: write %s://host:%s", a.kind, a.scheme, port)
	}
	var all []string
	for entry := range strings.SplitSeq(a.hosts, ",") {
		addr, err := redisurl.HostPort(entry, port)
		if err != nil {
			return nil, fmt.Errorf("%s URL: %w", a.kind, err)
		}
		all = append(all, addr)
	}
	return all, nil
}

// duration returns the value of a parameter, 0 if there is none.
func (a address) duration(name string) (time.Duration, error) {
	if !a.query.Has(name) {
		return 0, nil
	}
	d, err := time.ParseDuration(a.query.Get(name))
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s URL has a %q that is no duration such as 2s", a.kind, name)
	}
	return d, nil
}

// yes returns the value of a parameter that is true or false. It returns false if there is no
// such parameter.
func (a address) yes(name string) (bool, error) {
	if !a.query.Has(name) {
		return false, nil
	}
	is, err := strconv.ParseBool(a.query.Get(name))
	if err != nil {
		return false, fmt.Errorf("%s URL has a %q that is neither true nor false", a.kind, name)
	}
	return is, nil
}

// shedLock reports whether the parameter layout names the table of ShedLock.
func (a address) shedLock() (bool, error) {
	layout := a.query.Get("layout")
	if a.query.Has("layout") && layout != layoutLease && layout != layoutShedLock {
		return false, fmt.Errorf("%s URL has a \"layout\" that is neither %s nor %s", a.kind, layoutLease, layoutShedLock)
	}
	return layout == layoutShedLock, nil
}

// layoutName returns the value of the parameter layout.
func layoutName(shed bool) string {
	if shed {
		return layoutShedLock
	}
	return layoutLease
}

// Values of the parameter layout.
const (
	layoutLease    = "lease"
	layoutShedLock = "shedlock"
)

// tls returns the settings of TLS. It returns nil for a scheme without TLS; the schemes with
// TLS end with an s.
func (a address) tls(r Request) (*tls.Config, error) {
	config, err := r.Access.TLS()
	wanted := strings.HasSuffix(a.scheme, "s")
	switch {
	case err != nil:
		return nil, err
	case wanted && config == nil:
		return &tls.Config{MinVersion: tls.VersionTLS12}, nil
	case !wanted && config != nil:
		return nil, fmt.Errorf("there are settings for TLS, but the URL asks for no TLS: use %ss instead of %s", a.scheme, a.scheme)
	}
	return config, nil
}
