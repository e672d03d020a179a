package redisurl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Deployment is the kind of servers that a URL names.
type Deployment int

// Deployments.
const (
	OneServer   Deployment = iota // one server, or a cluster of which the URL has one node
	OneSocket                     // a server behind a Unix socket of this machine
	OnlyCluster                   // a cluster; a single server is an error
	Sentinels                     // the addresses are those of Sentinels
)

// Target has the settings of a URL. A zero field means that the URL does not contain the
// setting.
type Target struct {
	Deployment Deployment
	Addrs      []string // each a host and a port; or the path of the socket

	Username, Password string
	DB                 int
	ClientName         string
	RESP2              bool // the URL asks for RESP2; if false, the client library chooses the version

	TLS        bool
	SkipVerify bool // TLS accepts any certificate

	DialTimeout, WriteTimeout time.Duration

	Master                             string // the name that the Sentinels have for the master
	SentinelUsername, SentinelPassword string
}

// ParseTarget reads a URL of Redis or Valkey. It returns an error if it does not know the
// scheme or a parameter, or if a part is invalid. No error has a password in it.
func ParseTarget(raw string) (Target, error) {
	scheme, _, _ := strings.Cut(raw, "://")
	t, err := readScheme(scheme)
	if err != nil {
		return Target{}, err
	}
	u, hosts, err := Parse(raw)
	if err != nil {
		return Target{}, err
	}
	query, err := Query(u.RawQuery)
	if err != nil {
		return Target{}, ErrBad
	}
	t.Username = u.User.Username()
	t.Password, _ = u.User.Password()
	if err := t.readQuery(query); err != nil {
		return Target{}, err
	}
	if err := t.readPath(u.Path, query["db"]); err != nil {
		return Target{}, err
	}
	return t, t.readHosts(hosts, query["addr"])
}

// schemes returns for each scheme a Target that has only the fields Deployment and TLS.
func schemes() map[string]Target {
	all := map[string]Target{"unix": {Deployment: OneSocket}}
	for base, encrypts := range map[string]bool{"redis": false, "rediss": true, "valkey": false, "valkeys": true} {
		all[base] = Target{Deployment: OneServer, TLS: encrypts}
		all[base+"+cluster"] = Target{Deployment: OnlyCluster, TLS: encrypts}
		all[base+"+sentinel"] = Target{Deployment: Sentinels, TLS: encrypts}
		all[base+"-sentinel"] = all[base+"+sentinel"]
	}
	return all
}

// Schemes returns the schemes that ParseTarget accepts, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(schemes())) }

// readScheme returns a Target with the settings that the scheme gives. Its error does not quote
// the scheme if that text may be a part of a password.
func readScheme(scheme string) (Target, error) {
	if t, known := schemes()[scheme]; known {
		return t, nil
	}
	const known = "known: redis, rediss, valkey, valkeys, each also with +cluster or +sentinel, and unix"
	if strings.ContainsAny(scheme, ":/?#@%") || len(scheme) > len("valkeys+sentinel") {
		return Target{}, fmt.Errorf("redis URL has no scheme (%s)", known)
	}
	return Target{}, fmt.Errorf("redis URL has the unknown scheme %q (%s)", scheme, known)
}

// readPath reads the path of a URL: the path of a socket, or the number of the database. For
// Sentinels the name of the master may stand before that number. The slice `numbers` has the
// database numbers of the query.
func (t *Target) readPath(path string, numbers []string) error {
	db := strings.TrimPrefix(path, "/")
	switch t.Deployment {
	case OneSocket:
		db = ""
		if t.Addrs = []string{strings.TrimSpace(path)}; t.Addrs[0] == "" {
			return errors.New("redis URL names no socket: write unix:///path/to/socket")
		}
	case Sentinels:
		if t.Master != "" {
			break // the name of the master was in the query
		}
		t.Master, db, _ = strings.Cut(db, "/")
		if _, err := strconv.Atoi(t.Master); err == nil || t.Master == "" {
			return errors.New("redis URL names Sentinels but no master: write redis+sentinel://host:26379/NAME/0")
		}
	case OneServer, OnlyCluster:
	}
	if strings.Contains(db, "/") {
		return fmt.Errorf("redis: invalid URL path: %s", path)
	}
	if db != "" {
		numbers = append([]string{db}, numbers...)
	}
	for _, number := range numbers {
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return fmt.Errorf("redis URL has the invalid database number %q", number)
		}
		t.DB = n // only the servers know whether there is such a database, also in a cluster
	}
	return nil
}

// readHosts reads the list of hosts of a URL. The slice `more` has further hosts, from the
// parameter addr in the query.
func (t *Target) readHosts(hosts string, more []string) error {
	port := "6379"
	switch t.Deployment {
	case OneSocket:
		return nil
	case Sentinels:
		port = "26379"
	case OneServer:
		if strings.Contains(hosts, ",") {
			return errors.New("redis URL names several hosts: use redis+cluster:// for a cluster, and redis+sentinel:// for Sentinels")
		}
		if hosts == "" || hosts[0] == ':' {
			hosts = "localhost" + hosts
		}
		if len(more) > 0 {
			t.Deployment = OnlyCluster
		}
	case OnlyCluster:
	}
	for _, entry := range append(strings.Split(hosts, ","), more...) {
		addr, err := HostPort(entry, port)
		if err != nil {
			return fmt.Errorf("redis URL: %w", err)
		}
		t.Addrs = append(t.Addrs, addr)
	}
	return nil
}
