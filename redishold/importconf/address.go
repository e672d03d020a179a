package importconf

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// address is a server of a configuration.
type address struct {
	encrypts       bool   // its scheme asks for TLS
	hostport       string // or the path of a unix socket, which begins with a slash
	user, password string
	rest           string // what stands behind host and port
}

// parseAddress takes an address apart. In Spring's a single word before the host is
// a password, and the port may be missing. Errors do not quote the address.
func parseAddress(text string, spring bool) (a address, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case !found && strings.HasPrefix(text, "//") && !spring: // of Redisson 2
		rest = text[2:]
	case !found:
		return a, errors.New("an address begins with redis://, or with rediss:// for TLS")
	case scheme == "redis+uds" || scheme == "valkey+uds":
		if !strings.HasPrefix(rest, "/") || strings.ContainsFunc(rest, unprintable) {
			return a, errors.New("the path of a socket is absolute, as in redis+uds:///run/redis.sock")
		}
		return address{hostport: rest}, nil
	case scheme == "rediss" || scheme == "valkeys":
		a.encrypts = true
	case scheme != "redis" && scheme != "valkey":
		return a, errors.New("an address begins with redis://, rediss://, valkey://, valkeys://, redis+uds:// or valkey+uds://")
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest, a.rest = rest[:end], rest[end:]
	}
	if strings.Contains(a.rest, "@") || strings.Count(rest, "@") > 1 {
		return a, errors.New("a /, ?, #, @ or % in a user name or password must be written as %2F, %3F, %23, %40 or %25")
	}
	if at := strings.IndexByte(rest, '@'); at >= 0 {
		if err := a.userinfo(rest[:at], spring); err != nil {
			return a, err
		}
		rest = rest[at+1:]
	}
	if spring && rest != "" && strings.LastIndexByte(rest, ':') <= strings.LastIndexByte(rest, ']') {
		rest += ":6379"
	}
	if !spring && a.rest != "" && a.rest != "/" {
		return a, errors.New("an address ends with its port; the database has a key of its own")
	}
	a.hostport, err = hostport(rest)
	return a, err
}

func (a *address) userinfo(text string, spring bool) error {
	user, password, found := strings.Cut(text, ":")
	switch {
	case !found && !spring:
		return errors.New("there is a user or a password before the host, and versions differ on which: write :password@ or user:password@")
	case !found:
		user, password = "", user
	}
	var err, err2 error
	a.user, err = url.PathUnescape(user)
	a.password, err2 = url.PathUnescape(password)
	// Redisson 3.17 takes a password as it stands, 3.45 decodes it as in a form,
	// where + is a space.
	if err != nil || err2 != nil || !spring && strings.Contains(text, "+") {
		return errors.New("a % or + in a user name or password must be written as %25 or %2B; a key of its own takes it as it is")
	}
	if encrypted(a.password) {
		return errors.New("its password is encrypted, and what decrypts it in Java is not here")
	}
	return nil
}

// hostport completes and checks a host with its port. As with Redisson, an IPv6
// address may stand without brackets.
func hostport(text string) (string, error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || strings.HasSuffix(text, "]") {
		return "", errors.New("the address has no port")
	}
	host, port := text[:colon], text[colon+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port is not between 1 and 65535")
	}
	if trimmed := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"); strings.Contains(trimmed, ":") {
		if _, err := netip.ParseAddr(trimmed); err != nil || strings.Contains(trimmed, "%") {
			return "", errors.New("the host is no IPv6 address")
		}
		return net.JoinHostPort(trimmed, port), nil
	}
	if host == "" || strings.ContainsFunc(host, unprintable) || strings.ContainsAny(host, `[]@,/\?#%"'<>^{}|`+"`") {
		return "", errors.New("the host is none")
	}
	return host + ":" + port, nil
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }

// servers fills in the servers that e names, and who may log in according to their
// addresses. What is missing is missing in section.
func (r *reader) servers(kind Deployment, e, section entry, parse func(string) (address, error)) {
	s, texts := &r.s, r.list(e)
	switch {
	case len(texts) == 0:
		r.fault(section, "no address is given")
	case len(texts) > 1 && kind == Single:
		r.fault(e, "one address is expected here; several servers are those of Sentinels, of a cluster, or replicated ones")
	case kind == Sentinel && s.MasterName == "":
		r.fault(section, "masterName, of Spring sentinel.master is missing: the name by which the Sentinels know the master")
	}
	encrypts, user, password := false, &s.Username, &s.Password
	if kind == Sentinel {
		user, password = &s.SentinelUsername, &s.SentinelPassword
	}
	for i, text := range texts {
		a, err := parse(text)
		switch {
		case err != nil:
			r.fault(e, "%v", err)
		case i > 0 && a.encrypts != encrypts:
			r.fault(e, "some addresses ask for TLS and others do not")
		case strings.HasPrefix(a.hostport, "/") && (len(texts) > 1 || kind != Single):
			r.fault(e, "a unix socket is one server, and stands alone")
		case differ(*password, a.password) || differ(*user, a.user):
			r.fault(e, "the user or the password before the host is not that of another address or key; keep one of them")
		}
		*user, *password = cmp.Or(a.user, *user), cmp.Or(a.password, *password)
		s.Addrs = append(s.Addrs, a.hostport)
		encrypts = a.encrypts
	}
	s.TLS.Enabled, s.Deployment = s.TLS.Enabled || encrypts, kind
	if kind == Replicated && len(texts) == 1 {
		s.Deployment = Single // the address of the master, then
	}
	if r.err == nil {
		s.makeURL()
	}
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

func (s *Settings) makeURL() {
	u := url.URL{Scheme: "redis", Host: strings.Join(s.Addrs, ",")}
	if s.TLS.Enabled {
		u.Scheme = "rediss"
	}
	if s.Database != 0 {
		u.Path = "/" + strconv.Itoa(s.Database)
	}
	switch s.Deployment {
	case Replicated:
		for _, u.Host = range s.Addrs {
			s.Nodes = append(s.Nodes, u.String())
		}
		return
	case Cluster:
		u.Scheme += "+cluster"
	case Sentinel:
		u.Scheme += "+sentinel"
		// In the path, a number would be a database.
		if _, err := strconv.Atoi(s.MasterName); err != nil && !strings.ContainsAny(s.MasterName, "/?#%@") {
			u.Path = "/" + s.MasterName + u.Path
		} else {
			u.Path, u.RawQuery = cmp.Or(u.Path, "/"), url.Values{"master": {s.MasterName}}.Encode()
		}
	case Single:
		if strings.HasPrefix(s.Addrs[0], "/") {
			u = url.URL{Scheme: "unix", Path: s.Addrs[0]}
			if s.Database != 0 {
				u.RawQuery = "db=" + strconv.Itoa(s.Database)
			}
		}
	}
	s.URL = u.String()
}
