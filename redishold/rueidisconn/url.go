package rueidisconn

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// knownParameters are those of a URL's query.
var knownParameters = [...]string{"addr", "client_name", "db", "dial_timeout", "protocol", "skip_verify", "write_timeout"}

// errBadURL does not quote the URL: where it cannot be taken apart, nobody knows
// which part is the password.
var errBadURL = errors.New("redis URL cannot be taken apart: a /, ?, #, @ or % in the user name or password must be written as %2F, %3F, %23, %40 or %25")

// parseURL checks what rueidis.ParseURL would pass over, and leaves the rest to
// it.
func parseURL(raw string) (rueidis.ClientOption, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return rueidis.ClientOption{}, errBadURL
	}
	if err := checkScheme(u.Scheme); err != nil {
		return rueidis.ClientOption{}, err
	}
	// A # or an @ behind the host is most likely part of a password.
	if u.Fragment != "" || u.Opaque != "" || strings.Contains(u.RawQuery, "@") || u.Scheme != "unix" && strings.Contains(u.Path, "@") {
		return rueidis.ClientOption{}, errBadURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return rueidis.ClientOption{}, errBadURL
	}
	for name := range query {
		if !slices.Contains(knownParameters[:], name) {
			return rueidis.ClientOption{}, fmt.Errorf("redis URL has the unknown parameter %q (known: %s)", name, strings.Join(knownParameters[:], ", "))
		}
	}
	return rueidis.ParseURL(raw)
}

func checkScheme(scheme string) error {
	switch scheme {
	case "redis", "rediss", "valkey", "valkeys", "unix":
		return nil
	case "redis+sentinel", "rediss+sentinel", "redis-sentinel", "rediss-sentinel", "valkey+sentinel", "valkeys+sentinel",
		"redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster":
		return fmt.Errorf("redis URL scheme %q is not supported yet", scheme)
	default:
		return fmt.Errorf("redis URL has the unknown scheme %q (known: redis, rediss, valkey, valkeys, unix)", scheme)
	}
}
