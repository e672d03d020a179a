package redisurl

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
)

// Address is the part of a URL that names the servers and the database. It has no user and no
// password.
type Address struct {
	Encrypts bool
	Kind     string // "cluster", "sentinel", or something else for one server
	Addrs    []string
	Master   string // the name that the Sentinels have for the master
	Database int
}

// String returns the address as a URL.
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
	// If the name of a master is a number, it has to be a parameter: in the path, a number is
	// a database.
	if _, err := strconv.Atoi(a.Master); err != nil && a.Master != "" && !strings.ContainsAny(a.Master, "/?#%@") {
		u.Path = "/" + a.Master + u.Path
	} else if a.Master != "" {
		u.Path, u.RawQuery = cmp.Or(u.Path, "/"), EncodeQuery(url.Values{"master": {a.Master}})
	}
	return u.String()
}
