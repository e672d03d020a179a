package rueidisconn

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parameters returns the names that a URL's query may have.
func parameters(kind deployment) []string {
	names := slices.Clone(knownParameters[:])
	switch kind {
	case oneServer, onlyCluster:
		names = append(names, "addr")
	case sentinelsSet:
		names = append(append(names, masterParameters()...), "sentinel_username", "sentinel_password")
	case oneSocket:
	}
	slices.Sort(names)
	return names
}

// masterParameters are the names by which other clients call the master's name.
func masterParameters() []string {
	return []string{"master", "master_name", "master_set", "sentinelMasterId"}
}

// checkQuery refuses what rueidis.ParseURL would pass over.
func checkQuery(query url.Values, base string, kind deployment) error {
	known := parameters(kind)
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("redis URL has the unknown parameter %q (known here: %s)", name, strings.Join(known, ", "))
		case len(values) > 1 && name != "addr":
			return fmt.Errorf("redis URL has the parameter %q more than once", name)
		}
	}
	if query.Has("skip_verify") && base != "rediss" && base != "valkeys" {
		return errors.New("redis URL has the parameter \"skip_verify\" but asks for no TLS: use rediss instead of redis")
	}
	if p := query.Get("protocol"); query.Has("protocol") && p != "2" && p != "3" {
		return errors.New("redis URL has a \"protocol\" that is neither 2 nor 3")
	}
	for _, name := range []string{"dial_timeout", "write_timeout"} {
		if d, err := time.ParseDuration(query.Get(name)); query.Has(name) && (err != nil || d <= 0) {
			return fmt.Errorf("redis URL has a %q that is no duration such as 2s", name)
		}
	}
	return nil
}

// takeMaster takes the name of the master out of a URL: it is a parameter, or the
// first part of the path, which otherwise is the number of the database.
func takeMaster(u *url.URL, query url.Values) (string, error) {
	var master string
	for _, name := range masterParameters() {
		if value := query.Get(name); query.Has(name) {
			if master != "" && value != master {
				return "", errors.New("redis URL names two masters")
			}
			master = value
		}
	}
	if master != "" {
		return master, nil
	}
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if _, err := strconv.Atoi(master); err == nil || master == "" {
		return "", errors.New("redis URL names Sentinels but no master: write redis+sentinel://host:26379/NAME/0")
	}
	u.Path, u.RawPath = "/"+db, ""
	if db == "" {
		u.Path = ""
	}
	return master, nil
}
