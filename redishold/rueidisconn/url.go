package rueidisconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// knownParameters are those of every URL's query.
var knownParameters = [...]string{"client_name", "db", "dial_timeout", "protocol", "skip_verify", "write_timeout"}

// errBadURL does not quote the URL: where it cannot be taken apart, nobody knows
// which part is the password.
var errBadURL = errors.New("redis URL cannot be taken apart: a /, ?, #, @ or % in a user name or password must be written as %2F, %3F, %23, %40 or %25, and an IPv6 address in brackets")

// deployment is what a URL says of the servers behind it.
type deployment int

const (
	oneServer    deployment = iota // or a cluster, named by one of its nodes
	oneSocket                      // of this machine
	onlyCluster                    // a cluster, or an error
	sentinelsSet                   // the addresses are those of Sentinels
)

// target is what a URL says.
type target struct {
	deployment
	option    rueidis.ClientOption
	transport transport
}

// parseURL takes a URL apart. rueidis.ParseURL knows neither lists of hosts nor
// Sentinels, and passes over what it does not know; the rest is left to it.
func parseURL(raw string) (target, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	base, kind, err := parseScheme(scheme)
	switch {
	case err != nil:
		return target{}, err
	case !found:
		return target{}, errBadURL
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	// url.Parse takes no lists of hosts, so it gets the first one only.
	list := authority[strings.LastIndexByte(authority, '@')+1:]
	first, _, _ := strings.Cut(list, ",")
	u, err := url.Parse(base + "://" + strings.TrimSuffix(authority, list) + first + tail)
	if err != nil || suspicious(u) {
		return target{}, errBadURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, errBadURL
	}
	if err := checkQuery(query, base, kind); err != nil {
		return target{}, err
	}
	return newTarget(u, query, kind, list)
}

// parseScheme returns the scheme for rueidis.ParseURL, and what the scheme says
// of the servers.
func parseScheme(scheme string) (base string, kind deployment, err error) {
	switch scheme {
	case "redis", "rediss", "valkey", "valkeys":
		return scheme, oneServer, nil
	case "unix":
		return scheme, oneSocket, nil
	case "redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster":
		return strings.TrimSuffix(scheme, "+cluster"), onlyCluster, nil
	case "redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel",
		"redis-sentinel", "rediss-sentinel", "valkey-sentinel", "valkeys-sentinel":
		return scheme[:len(scheme)-len("+sentinel")], sentinelsSet, nil
	}
	known := "known: redis, rediss, valkey, valkeys, each also with +cluster or +sentinel, and unix"
	if strings.ContainsAny(scheme, ":/?#@%") || len(scheme) > len("valkeys+sentinel") {
		return "", 0, fmt.Errorf("redis URL has no scheme (%s)", known) // who knows what this is
	}
	return "", 0, fmt.Errorf("redis URL has the unknown scheme %q (%s)", scheme, known)
}

// suspicious reports whether something behind the host is most likely part of a
// password, or a part that has no meaning was given.
func suspicious(u *url.URL) bool {
	if u.Fragment != "" || u.Opaque != "" || strings.Contains(u.RawQuery, "@") {
		return true
	}
	if u.Scheme == "unix" {
		// In the path of a socket an @ is in order, but behind a password with a / in
		// it comes another @, and then the path.
		return u.Host != "" || u.User != nil && strings.Contains(u.EscapedPath(), "@/")
	}
	return strings.Contains(u.Path, "@")
}

// newTarget reads a URL of which u is what rueidis understands.
func newTarget(u *url.URL, query url.Values, kind deployment, list string) (target, error) {
	t := target{deployment: kind}
	var master string
	var err error
	if kind == sentinelsSet {
		if master, err = takeMaster(u, query); err != nil {
			return target{}, err
		}
	}
	addrs, err := addresses(kind, list, query["addr"])
	if err != nil {
		return target{}, err
	}
	sentinel := rueidis.SentinelOption{MasterSet: master, Username: query.Get("sentinel_username"), Password: query.Get("sentinel_password")}
	for _, name := range append(masterParameters(), "addr", "sentinel_username", "sentinel_password") {
		query.Del(name)
	}
	// Errors of rueidis.ParseURL may quote what they are given: no password, then.
	user := u.User
	u.User, u.RawQuery = nil, query.Encode()
	if kind != oneSocket {
		u.Host = "localhost"
	}
	if u.Path == "/" && kind != oneSocket {
		u.Path = ""
	}
	if t.option, err = rueidis.ParseURL(u.String()); err != nil {
		return target{}, err
	}
	t.option.Sentinel = sentinel
	t.option.Username = user.Username()
	t.option.Password, _ = user.Password()
	t.transport.network = "tcp"
	switch {
	case kind == oneSocket:
		t.transport.network = "unix"
		return t, t.checkSocket()
	case kind == oneServer && len(addrs) == 1:
		t.transport.named, _, _ = net.SplitHostPort(addrs[0])
	case kind == oneServer:
		t.deployment = onlyCluster
	}
	t.option.InitAddress = addrs
	if t.asksForTLS() {
		t.option.TLSConfig.ServerName = "" // transport knows the names
	}
	return t, t.checkDatabase()
}

func (t *target) checkSocket() error {
	if t.option.InitAddress[0] == "" {
		return errors.New("redis URL names no socket: write unix:///path/to/socket")
	}
	return t.checkDatabase()
}

func (t *target) checkDatabase() error {
	if db := t.option.SelectDB; db < 0 {
		return fmt.Errorf("redis URL has the invalid database number %d", db)
	}
	return nil // whether there is such a database, also in a cluster, the servers know
}

// asksForTLS reports whether connections shall be encrypted.
func (t *target) asksForTLS() bool { return t.option.TLSConfig != nil }

// useTLS replaces the settings for TLS by those of the caller, apart from what
// the URL says of them.
func (t *target) useTLS(config *tls.Config) {
	own := config.Clone()
	own.InsecureSkipVerify = own.InsecureSkipVerify || t.option.TLSConfig.InsecureSkipVerify
	t.option.TLSConfig = own
}
