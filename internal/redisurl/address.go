package redisurl

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
)

// Address is what a URL leads to. No user and no password is in it.
type Address struct {
	Encrypts bool
	Kind     string // "cluster", "sentinel", or something else for one server
	Addrs    []string
	Master   string // how Sentinels call the master
	Database int
}

// String returns the URL.
func (a Address) String() string {
	u := url.URL{Scheme: "redis", Host: strings.Join(a.Addrs, ",")}
	database := ""
	if a.Database != 0 {
		database = strconv.Itoa(a.Database)
		u.Path = "/" + database
	}
	if socket := a.Addrs[0]; strings.HasPrefix(socket, "/") {
		u = url.URL{Scheme: "unix", Path: socket}
		if database != "" {
			u.RawQuery = "db=" + database
		}
		return u.String()
	}
	if a.Encrypts {
		u.Scheme = "rediss"
	}
	if a.Kind == "cluster" || a.Kind == "sentinel" {
		u.Scheme += "+" + a.Kind
	}
	// In the path, a number would be a database.
	if _, err := strconv.Atoi(a.Master); err != nil && a.Master != "" && !strings.ContainsAny(a.Master, "/?#%@") {
		u.Path = "/" + a.Master + u.Path
	} else if a.Master != "" {
		u.Path, u.RawQuery = cmp.Or(u.Path, "/"), EncodeQuery(url.Values{"master": {a.Master}})
	}
	return u.String()
}
