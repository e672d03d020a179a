package open

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// address has the parts of the URL of a store that is not Redis. Its methods return zero values
// for parts that are wrong. err is the first error, from the function `cut` or from a method.
// Errors name the store by its Kind.
type address struct {
	access             Access
	kind               Kind
	scheme             string
	hosts              string // with commas between
	path               string
	username, password string // those of access, otherwise those of the URL
	query              url.Values
	err                error
}

// cut splits the URL of a store into its parts. The URL may have each parameter only once, and
// only those in `known`. If `known` is nil, it may have any.
func cut(kind Kind, a Access, known ...string) *address {
	u, hosts, err := redisurl.Parse(a.URL)
	var query url.Values
	if err == nil {
		query, err = redisurl.Query(u.RawQuery)
	}
	if err != nil { // the text of err is about Redis, or repeats the password
		return &address{err: fmt.Errorf("%s URL cannot be taken apart: a /, ?, #, @ or %% in a user name or password must be written as "+
			"%%2F, %%3F, %%23, %%40 or %%25, and an IPv6 address in brackets", kind)}
	}
	password, _ := u.User.Password()
	c := &address{
		access:   a,
		kind:     kind,
		scheme:   u.Scheme,
		hosts:    hosts,
		path:     u.Path,
		username: cmp.Or(a.Username, u.User.Username()),
		password: cmp.Or(a.Password, password),
		query:    query,
	}
	for name, values := range query {
		switch {
		case known != nil && !slices.Contains(known, name):
			c.wrong("has the unknown parameter %q (known here: %s)", name, strings.Join(known, ", "))
		case len(values) > 1:
			c.wrong("has the parameter %q more than once", name)
		}
	}
	return c
}

// wrong records that the URL is wrong, unless an error was found before.
func (a *address) wrong(format string, args ...any) {
	a.fail(fmt.Errorf(string(a.kind)+" URL "+format, args...))
}

// fail records err, unless it is nil or another error was found before.
func (a *address) fail(err error) { a.err = cmp.Or(a.err, err) }

// addrs returns the hosts, each with its port.
func (a *address) addrs() []string {
	port := a.kind.scheme().port
	if a.hosts == "" {
		a.wrong("names no host: write %s://host:%s", a.kind, port)
		return nil
	}
	var all []string
	for entry := range strings.SplitSeq(a.hosts, ",") {
		addr, err := redisurl.HostPort(entry, port)
		if err != nil {
			a.fail(fmt.Errorf("%s URL: %w", a.kind, err))
		}
		all = append(all, addr)
	}
	return all
}

// login returns the user and the password, for a store that needs both or neither.
func (a *address) login() (user, password string) {
	if (a.username == "") != (a.password == "") {
		a.fail(fmt.Errorf("%s wants a user and a password, or neither: certificates say who somebody is without them", a.kind))
	}
	return a.username, a.password
}

// dialTimeout is how long a server that is not Redis may take to answer the first time.
const dialTimeout = 5 * time.Second

// dialLimit returns how long a server may take to answer the first time: the time of the
// configuration, else the time in the URL, else dialTimeout.
func (a *address) dialLimit() time.Duration {
	inURL, err := time.ParseDuration(a.query.Get("dial_timeout"))
	if a.query.Has("dial_timeout") && (err != nil || inURL <= 0) {
		a.wrong(`has a "dial_timeout" that is no duration such as 2s`)
	}
	return cmp.Or(a.access.DialTimeout, inURL, dialTimeout)
}

// create returns the value of the parameter create, which says whether to create the table.
func (a *address) create() bool {
	is, err := strconv.ParseBool(a.query.Get("create"))
	if a.query.Has("create") && err != nil {
		a.wrong(`has a "create" that is neither true nor false`)
	}
	return is
}

// choice returns the value of the URL's parameter `name`, or "" if the URL does not have it. A
// value that is not one of `values` is an error.
func (a *address) choice(name string, values ...string) string {
	value := a.query.Get(name)
	if a.query.Has(name) && !slices.Contains(values, value) {
		a.wrong("has a %q that is neither %s", name, strings.Join(values, " nor "))
	}
	return value
}

// Values of the parameter layout, which names the kind of table.
const (
	layoutLease    = "lease"
	layoutShedLock = "shedlock"
)

func (a *address) layout() string {
	return cmp.Or(a.choice("layout", layoutLease, layoutShedLock), layoutLease)
}

// tls returns the settings of TLS. It returns nil for a scheme without TLS; the schemes with
// TLS end with an s.
func (a *address) tls() *tls.Config {
	config, err := a.access.TLS()
	wanted := strings.HasSuffix(a.scheme, "s")
	switch {
	case err != nil:
		a.fail(err)
	case wanted && config == nil:
		return &tls.Config{MinVersion: tls.VersionTLS12}
	case !wanted && config != nil:
		a.fail(fmt.Errorf("there are settings for TLS, but the URL asks for no TLS: use %ss instead of %s", a.scheme, a.scheme))
	}
	return config
}
