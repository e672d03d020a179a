package rueidisconn

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// addresses returns the addresses of a list of hosts and of further ones, each
// with a port.
func addresses(kind deployment, list string, more []string) ([]string, error) {
	port := "6379"
	switch kind {
	case oneSocket:
		return nil, nil
	case sentinelsSet:
		port = "26379"
	case oneServer:
		if strings.Contains(list, ",") {
			return nil, errors.New("redis URL names several hosts: use redis+cluster:// for a cluster, and redis+sentinel:// for Sentinels")
		}
		list = withHost(list)
	case onlyCluster:
	}
	var addrs []string
	for _, entry := range append(strings.Split(list, ","), more...) {
		addr, err := address(entry, port)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// withHost completes the host of a URL that has none, which is this machine.
func withHost(hostport string) string {
	if hostport == "" || hostport[0] == ':' {
		return "localhost" + hostport
	}
	return hostport
}

// address completes one host of a list.
func address(entry, port string) (string, error) {
	u, err := url.Parse("redis://" + entry)
	if err != nil || u.Host != entry && !strings.Contains(entry, "%") || u.User != nil {
		return "", errBadURL
	}
	host := u.Hostname()
	if host == "" || strings.ContainsFunc(host, notOfHost) || strings.Contains(host, ":") != (entry[0] == '[') {
		return "", errors.New("redis URL has an invalid host: write host, host:port, [IPv6] or [IPv6]:port")
	}
	port = cmp.Or(u.Port(), port)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("redis URL has a port that is not between 1 and 65535")
	}
	return net.JoinHostPort(host, port), nil
}

func notOfHost(r rune) bool {
	return r <= ' ' || r == utf8.RuneError || strings.ContainsRune("[]@,\x7f", r)
}
