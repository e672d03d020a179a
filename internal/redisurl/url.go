// Package redisurl takes the URLs of Redis apart, finds the passwords in them, and makes
// URLs.
//
// If a URL cannot be taken apart, it is not known where its password is. So no error quotes a
// URL, and Secrets takes too much for a password rather than too little.
package redisurl

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

// ErrBad is the error for a URL that cannot be taken apart.
var ErrBad = errors.New("redis URL cannot be taken apart: a /, ?, #, @ or % in a user name or password must be written as %2F, %3F, %23, %40 or %25, and an IPv6 address in brackets")

var errBadHost = errors.New("invalid host, which cannot be taken apart: write host, host:port, [IPv6] or [IPv6]:port")

// Parts are the parts of a URL as it is written: nothing is decoded, and only the :// after
// the scheme is left out.
type Parts struct {
	Scheme string
	Login  string // user and password, with the @
	Hosts  string // with commas between
	Tail   string // path, parameters and fragment
}

// Cut finds the parts of a URL. The result `ok` is false if the text has no ://.
func Cut(text string) (p Parts, ok bool) {
	p.Scheme, p.Hosts, ok = strings.Cut(text, "://")
	if !ok {
		return Parts{}, false
	}
	if end := strings.IndexAny(p.Hosts, "/?#"); end >= 0 {
		p.Hosts, p.Tail = p.Hosts[:end], p.Hosts[end:]
	}
	at := strings.LastIndexByte(p.Hosts, '@') + 1
	p.Login, p.Hosts = p.Hosts[:at], p.Hosts[at:]
	return p, true
}

// User returns the user and the password of the login. The result `both` is true if there is
// a colon between them.
func (p Parts) User() (user, password string, both bool) {
	return strings.Cut(strings.TrimSuffix(p.Login, "@"), ":")
}

// Parse takes a URL apart. url.Parse accepts no list of hosts, so u has only the first host;
// `hosts` is the whole list. Parse returns ErrBad if the URL cannot be taken apart, if a part
// of it has no meaning in a URL of Redis, or if a part is most likely a piece of a password.
func Parse(raw string) (u *url.URL, hosts string, err error) {
	p, _ := Cut(raw)
	first, _, _ := strings.Cut(p.Hosts, ",")
	u, err = url.Parse(p.Scheme + "://" + p.Login + first + p.Tail)
	if err != nil || !strings.EqualFold(u.Scheme, p.Scheme) || strings.Contains(p.Tail, "#") || u.Opaque != "" || strings.Contains(u.RawQuery, "@") {
		return nil, "", ErrBad
	}
	misplaced := strings.Contains(u.Path, "@")
	if u.Scheme == "unix" {
		// The path of a socket may contain an @. But if the password has a / that is not
		// encoded, the path has the rest of the password, and then @/.
		misplaced = u.Host != "" || u.User != nil && strings.Contains(u.EscapedPath(), "@/")
	}
	if misplaced {
		return nil, "", ErrBad
	}
	return u, p.Hosts, nil
}

// HostPort checks one host of a list, and returns it with its port. If the host has no port,
// HostPort adds the port in the parameter `port`.
func HostPort(entry, port string) (string, error) {
	u, err := url.Parse("redis://" + entry)
	if err != nil || u.Host != entry && !strings.Contains(entry, "%") || u.User != nil {
		return "", errBadHost
	}
	host := u.Hostname()
	if host == "" || strings.ContainsFunc(host, Unprintable) || strings.ContainsAny(host, `[]@,"'<>`) {
		return "", errBadHost
	}
	if _, err := netip.ParseAddr(host); entry[0] == '[' && err != nil || entry[0] != '[' && strings.Contains(host, ":") {
		return "", errBadHost
	}
	if port = cmp.Or(u.Port(), port); port == "" {
		return "", errors.New("the address has no port: write host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port is not between 1 and 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// Unprintable reports whether a rune must not be in a host or in the path of a socket.
func Unprintable(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }
