package redisurl

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query returns the parameters of a URL as libpq and people read them: a + is a plus, and
// a space is %20. In forms of pages, for which url.ParseQuery is meant, a + is a space.
func Query(raw string) (url.Values, error) {
	return url.ParseQuery(strings.ReplaceAll(raw, "+", "%2B"))
}

// EncodeQuery is the reverse of Query.
func EncodeQuery(values url.Values) string {
	return strings.ReplaceAll(values.Encode(), "+", "%20") // Encode writes a + only for a space
}

// parameters returns the names of the parameters that the query of a URL may have.
func (d Deployment) parameters() []string {
	names := []string{"client_name", "db", "dial_timeout", "protocol", "skip_verify", "write_timeout"}
	switch d {
	case OneServer, OnlyCluster:
		names = append(names, "addr")
	case Sentinels:
		names = append(append(names, masterParameters()...), "sentinel_username", "sentinel_password")
	case OneSocket:
	}
	slices.Sort(names)
	return names
}

// masterParameters returns the names of the parameters in which clients expect the name of
// the master.
func masterParameters() []string {
	return []string{"master", "master_name", "master_set", "sentinelMasterId"}
}

func (t *Target) readQuery(query url.Values) error {
	known := t.Deployment.parameters()
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("redis URL has the unknown parameter %q (known here: %s)", name, strings.Join(known, ", "))
		case len(values) > 1 && name != "addr":
			return fmt.Errorf("redis URL has the parameter %q more than once", name)
		}
	}
	t.ClientName = query.Get("client_name")
	t.SentinelUsername, t.SentinelPassword = query.Get("sentinel_username"), query.Get("sentinel_password")
	for _, name := range masterParameters() {
		master := query.Get(name)
		if query.Has(name) && t.Master != "" && master != t.Master {
			return errors.New("redis URL names two masters")
		}
		t.Master = cmp.Or(master, t.Master)
	}
	for name, d := range map[string]*time.Duration{"dial_timeout": &t.DialTimeout, "write_timeout": &t.WriteTimeout} {
		var err error
		if *d, err = time.ParseDuration(query.Get(name)); query.Has(name) && (err != nil || *d <= 0) {
			return fmt.Errorf("redis URL has a %q that is no duration such as 2s", name)
		}
	}
	return t.readModes(query)
}

// readModes reads which version of RESP to use, and whether to verify certificates.
func (t *Target) readModes(query url.Values) error {
	if p := query.Get("protocol"); query.Has("protocol") && p != "2" && p != "3" {
		return errors.New("redis URL has a \"protocol\" that is neither 2 nor 3")
	}
	t.RESP2 = query.Get("protocol") == "2"
	if !query.Has("skip_verify") {
		return nil
	}
	if !t.TLS {
		return errors.New("redis URL has the parameter \"skip_verify\" but asks for no TLS: use rediss instead of redis")
	}
	var err error
	if t.SkipVerify, err = strconv.ParseBool(cmp.Or(query.Get("skip_verify"), "true")); err != nil {
		return errors.New("redis URL has a \"skip_verify\" that is neither true nor false")
	}
	return nil
}
