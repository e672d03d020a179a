package access

import (
	"net/url"
	"strings"
)

// Redacted returns the URL of a store without what is secret in it: the password
// before the hosts is left out, and those of Sentinels, which are parameters, are
// masked. Of a URL that is not understood only the scheme is shown, as nobody knows
// where its password is.
func Redacted(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return ""
	}
	rest, query, _ := strings.Cut(rest, "?")
	u, err := url.Parse(raw)
	switch {
	case err == nil && !strings.EqualFold(u.Scheme, scheme):
		return "" // what stands before :// is more than a scheme
	case err != nil, strings.Contains(query, "@"): // a password may have a ? in it
		return scheme + "://…"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, _ := strings.Cut(rest[:at], ":")
		rest = rest[at:]
		if user != "" {
			rest = user + rest
		} else {
			rest = rest[1:]
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil || query == "" {
		return scheme + "://" + rest
	}
	if hidePasswords(values) {
		query = values.Encode()
	}
	return scheme + "://" + rest + "?" + query
}

// hidePasswords masks all that is secret among the parameters of a URL, and reports
// whether there was any.
func hidePasswords(values url.Values) (hidden bool) {
	for name := range values {
		if secretName(name) {
			values.Set(name, "***")
			hidden = true
		}
	}
	return hidden
}
