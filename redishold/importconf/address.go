package importconf

import (
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
	from     entry
	encrypts bool // its scheme asks for TLS
	hostport string
	path     string // of a unix socket

	hasUser        bool
	user, password string

	rest string // what stands behind host and port
}

// parseAddress takes an address apart. Its errors do not quote it.
func parseAddress(text string, bare bool, decode func(string) (string, error)) (address, error) {
	var a address
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case !found && strings.HasPrefix(text, "//"): // of Redisson 2
		rest = text[2:]
	case !found && bare:
		rest = text
	case !found:
		return a, errors.New("an address begins with redis://, or with rediss:// for TLS")
	case scheme == "redis+uds" || scheme == "valkey+uds":
		return socketAddress(rest)
	case scheme == "rediss" || scheme == "valkeys":
		a.encrypts = true
	case scheme != "redis" && scheme != "valkey":
		return a, errors.New("an address begins with redis://, rediss://, valkey://, valkeys://, redis+uds:// or valkey+uds://")
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, a.rest = rest[:end], rest[end:]
	}
	if strings.Contains(a.rest, "@") || strings.Count(authority, "@") > 1 {
		return a, errors.New("a /, ?, #, @ or % in a user name or password must be written as %2F, %3F, %23, %40 or %25")
	}
	if at := strings.IndexByte(authority, '@'); at >= 0 {
		if err := a.userinfo(authority[:at], decode); err != nil {
			return a, err
		}
		authority = authority[at+1:]
	}
	var err error
	a.hostport, err = hostport(authority)
	return a, err
}

func (a *address) userinfo(text string, decode func(string) (string, error)) error {
	user, password, found := strings.Cut(text, ":")
	if !found {
		return errors.New("there is a user or a password before the host, and versions differ on which: write :password@ or user:password@")
	}
	var err error
	if a.user, err = decode(user); err == nil {
		a.password, err = decode(password)
	}
	if err != nil {
		return errors.New("a % or + in a user name or password must be written as %25 or %2B; a key of its own takes it as it is")
	}
	a.hasUser = true
	return nil
}

func socketAddress(path string) (address, error) {
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, unprintable) {
		return address{}, errors.New("the path of a socket is absolute, as in redis+uds:///run/redis.sock")
	}
	return address{path: path}, nil
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
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return unprintable(r) || strings.ContainsRune(`[]@,/\?#%"'<>^{}|`+"`", r) }) {
		return "", errors.New("the host is none")
	}
	return host + ":" + port, nil
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }

// decodeRedisson refuses what Redisson's versions take differently: 3.17 takes a
// password as it stands, 3.45 decodes it as in a form, where + is a space.
func decodeRedisson(text string) (string, error) {
	if strings.Contains(text, "+") {
		return "", errors.New("ambiguous")
	}
	return url.PathUnescape(text)
}

// locate fills in where the servers are. All addresses are of one kind.
func (s *Settings) locate(d Deployment, servers []address) error {
	s.Deployment = d
	for _, a := range servers {
		switch {
		case a.encrypts != servers[0].encrypts:
			return a.from.fault("some addresses ask for TLS and others do not")
		case a.path != "" && (len(servers) > 1 || d != Single):
			return a.from.fault("a unix socket is one server, and stands alone")
		}
		s.Addrs = append(s.Addrs, a.hostport+a.path)
	}
	s.TLS.Enabled = s.TLS.Enabled || servers[0].encrypts
	if d == Replicated && len(servers) == 1 {
		s.Deployment = Single // the address of the master, then
	}
	s.makeURL()
	return nil
}

func (s *Settings) makeURL() {
	u := url.URL{Scheme: "redis", Host: strings.Join(s.Addrs, ",")}
	if s.TLS.Enabled {
		u.Scheme = "rediss"
	}
	database := ""
	if s.Database != 0 {
		database = "/" + strconv.Itoa(s.Database)
	}
	switch s.Deployment {
	case Sentinel:
		u.Scheme += "+sentinel"
		if simple(s.MasterName) {
			u.Path = "/" + s.MasterName + database
		} else {
			u.Path, u.RawQuery = "/"+strings.TrimPrefix(database, "/"), url.Values{"master": {s.MasterName}}.Encode()
		}
	case Cluster:
		u.Scheme += "+cluster"
		u.Path = database
	case Replicated:
		for _, addr := range s.Addrs {
			u.Host, u.Path = addr, database
			s.Nodes = append(s.Nodes, u.String())
		}
		return
	case Single:
		if strings.HasPrefix(s.Addrs[0], "/") {
			u = url.URL{Scheme: "unix", Path: s.Addrs[0]}
			if s.Database != 0 {
				u.RawQuery = "db=" + strconv.Itoa(s.Database)
			}
		} else {
			u.Path = database
		}
	}
	s.URL = u.String()
}

// simple reports whether the name of a master can stand in a path, where a number
// would be a database.
func simple(name string) bool {
	_, err := strconv.Atoi(name)
	return err != nil && !strings.ContainsAny(name, "/?#%@") && name != ""
}
