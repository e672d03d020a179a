package importconf

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// address is a server of a configuration.
type address struct {
	encrypts       bool   // the scheme of the address asks for TLS
	hostport       string // "host:port", or the path of a unix socket, which begins with a slash
	user, password string
}

var errFullWidth = errors.New("the address has a full-width character, as a Chinese keyboard writes it: use the ASCII characters for digits, : and ,")

// fullWidth reports whether c is the full-width form of a character of ASCII.
func fullWidth(c rune) bool { return c >= 0xff01 && c <= 0xff5e }

// parseAddress returns the parts of an address. An address may name a database, but only the
// one that the parameter `database` names. Errors do not contain the address.
func parseAddress(text, database string) (a address, err error) {
	if strings.HasPrefix(text, "//") { // Redisson 2 has such addresses
		text = "redis:" + text
	}
	p, _ := redisurl.Cut(text)
	switch p.Scheme {
	case "redis+uds", "valkey+uds":
		if p.Login+p.Hosts != "" || p.Tail == "" || strings.ContainsFunc(p.Tail, redisurl.Unprintable) {
			return a, errors.New("the path of a socket is absolute, as in redis+uds:///run/redis.sock")
		}
		return address{hostport: p.Tail}, nil
	case "rediss", "valkeys":
		a.encrypts = true
	case "redis", "valkey":
	default:
		return a, errors.New("an address begins with redis://, valkey://, redis+uds:// or valkey+uds://, or with rediss:// or valkeys:// for TLS")
	}
	switch {
	case strings.Contains(p.Hosts, "$"):
		return a, errors.New("a $ without braces is not a placeholder, not even for Redisson: write ${NAME}")
	case strings.ContainsFunc(p.Hosts, fullWidth):
		return a, errFullWidth
	}
	if strings.Contains(p.Tail, "@") || strings.Contains(p.Hosts, "%") || strings.Count(p.Login, "@") > 1 {
		return a, redisurl.ErrBad
	}
	user, password, both := p.User()
	if p.Login != "" && !both {
		return a, errors.New("versions differ on whether the text before the @ is the user or the password: write :password@ or user:password@")
	}
	var err2 error
	a.user, err = url.PathUnescape(user)
	a.password, err2 = url.PathUnescape(password)
	// Redisson 3.17 takes a password unchanged. Redisson 3.45 decodes it like a form of a web
	// page, where + is a space.
	if err != nil || err2 != nil || strings.Contains(p.Login, "+") {
		return a, errors.New("a % or + in a user name or password must be written as %25 or %2B; in the keys username and password it stays as it is")
	}
	if named := strings.TrimPrefix(p.Tail, "/"); named != database && (named != "" || database != "0") {
		return a, errors.New("the database in the address is not the one in the key database, and versions differ on which one they use; write the same database at both places")
	}
	if colon := strings.LastIndexByte(p.Hosts, ':'); colon > 0 && p.Hosts[0] != '[' && strings.Contains(p.Hosts[:colon], ":") {
		p.Hosts = "[" + p.Hosts[:colon] + "]" + p.Hosts[colon:] // Redisson takes IPv6 addresses without brackets
	}
	a.hostport, err = redisurl.HostPort(p.Hosts, "")
	return a, err
}

// servers sets the servers, the user and the password from the addresses in p. If an address
// names a database, this must be the parameter `database`. If a key is missing, the error names
// the key of the parameter `section`. For replicated servers, Settings.Nodes gets a URL for
// each address.
func (r *reader) servers(kind Deployment, p, section property, database string) {
	s, texts := &r.s, r.list(p)
	switch {
	case len(texts) == 0:
		r.fault(section, "no address is given")
	case len(texts) > 1 && kind == Single:
		r.fault(p, "write one address here; for several servers, use the section for Sentinels, for a cluster, or for replicated servers")
	case kind == Sentinel && s.MasterName == "":
		r.fault(section, "masterName is missing (in Spring sentinel.master): write the name that the Sentinels have for the master")
	}
	encrypts, user, password := false, &s.Username, &s.Password
	if kind == Sentinel {
		user, password = &s.SentinelUsername, &s.SentinelPassword
	}
	for i, text := range texts {
		a, err := parseAddress(text, database)
		switch {
		case err != nil:
			r.fault(p, "%v", err)
		case i > 0 && a.encrypts != encrypts:
			r.fault(p, "some addresses ask for TLS and others do not; use TLS in all of them, or in none")
		case strings.HasPrefix(a.hostport, "/") && (len(texts) > 1 || kind != Single):
			r.fault(p, "a unix socket is a single server; write no other address beside it")
		case cmp.Or(*password, a.password) != cmp.Or(a.password, *password) || cmp.Or(*user, a.user) != cmp.Or(a.user, *user):
			r.fault(p, "the user or the password before the host differs from another address or key; keep one of them")
		}
		*user, *password = cmp.Or(a.user, *user), cmp.Or(a.password, *password)
		s.Addrs = append(s.Addrs, a.hostport)
		encrypts = a.encrypts
	}
	s.TLS.Enabled, s.Deployment = s.TLS.Enabled || encrypts, kind
	if kind == Replicated && len(texts) == 1 {
		s.Deployment = Single // the only address is that of the master
	}
	if r.err != nil {
		return
	}
	at := redisurl.Address{Encrypts: s.TLS.Enabled, Kind: string(s.Deployment), Addrs: s.Addrs, Master: s.MasterName, Database: s.Database}
	if s.Deployment != Replicated {
		s.URL = at.String()
		return
	}
	for i := range s.Addrs {
		at.Addrs = s.Addrs[i : i+1]
		s.Nodes = append(s.Nodes, at.String())
	}
}
