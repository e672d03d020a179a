package redisurl

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Span is the part of a text that begins with the byte From and ends before the byte To.
type Span struct{ From, To int }

// Secrets returns the spans of the passwords in a text that is a URL or contains a URL. It
// finds the password before the hosts, and the passwords in parameters. If Secrets is unsure,
// for example because the URL cannot be taken apart, a span has more than the password rather
// than less. The spans are in order, and do not overlap.
func Secrets(text string) []Span {
	p, ok := Cut(text)
	if !ok {
		return nil
	}
	spans := secretParameters(text, p)
	// A slash that somebody forgot to encode is part of the password, so the password ends at
	// the last @ of the text.
	begin := len(p.Scheme) + len("://")
	at := max(begin, strings.LastIndexByte(text, '@'))
	if colon := strings.IndexByte(text[begin:at], ':'); colon >= 0 {
		spans = append(spans, Span{begin + colon + 1, at})
	}
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var apart []Span
	for _, s := range spans {
		if last := len(apart) - 1; last >= 0 && s.From <= apart[last].To {
			apart[last].To = max(apart[last].To, s.To)
		} else {
			apart = append(apart, s)
		}
	}
	return apart
}

// secretParameters returns the spans of those values of parameters that are passwords. A
// value ends at the next &. The search begins after the login, because a login may look like
// a parameter.
func secretParameters(text string, p Parts) (spans []Span) {
	from := len(text) - len(p.Hosts+p.Tail)
	for _, name := range regexp.MustCompile(`[^?&;#/=]*=`).FindAllStringIndex(text[from:], -1) {
		begin, to := from+name[1], len(text)
		if !secretName(text[from+name[0] : begin]) {
			continue
		}
		if next := strings.IndexByte(text[begin:], '&'); next >= 0 {
			to = begin + next
		}
		spans = append(spans, Span{begin, to})
	}
	return spans
}

// secretName reports whether the parameter of that name has a password as its value. A part of
// the name that cannot be decoded stays encoded. ParseTarget refuses a URL with such a name,
// but the URL may have a real password.
func secretName(name string) bool {
	plain := regexp.MustCompile(`%[0-9A-Fa-f]{2}`).ReplaceAllStringFunc(name, func(encoded string) string {
		c, _ := url.PathUnescape(encoded)
		return c
	})
	return strings.Contains(strings.ToLower(plain), "password")
}

// Passwords finds out which passwords a URL has. The result `store` is true if the URL has a
// password for the store. The result `any` is true if it has such a password, or a password for
// Sentinels. For a URL that cannot be taken apart, `store` is false.
func Passwords(raw string) (store, any bool) {
	p, _ := Cut(raw)
	_, password, _ := p.User()
	store = password != ""
	return store, store || slices.ContainsFunc(secretParameters(raw, p), func(s Span) bool { return s.To > s.From })
}

// Redacted returns the URL of a store without what is secret in it: the password before the
// hosts is left out, and the passwords of Sentinels, which are parameters, are masked. Of a URL
// that is not understood, Redacted shows only the scheme, because it is not known where the
// password is. If the scheme is not clear either, it returns "".
func Redacted(raw string) string {
	p, ok := Cut(raw)
	if !ok || !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`).MatchString(p.Scheme) {
		return "" // there is no ://, or the text before it is not a scheme
	}
	unknown := p.Scheme + "://…"
	path, query, _ := strings.Cut(p.Tail, "?")
	if _, _, err := Parse(raw); err != nil || strings.Contains(path, "@") || strings.Contains(p.Hosts, "%40") {
		return unknown
	}
	shown := p.Scheme + "://"
	if user, _, _ := p.User(); user != "" {
		shown += user + "@"
	}
	shown += p.Hosts + path
	if values, err := Query(query); err == nil && query != "" {
		shown += "?" + masked(query, values)
	}
	for _, s := range Secrets(shown) {
		if shown[s.From:s.To] != url.QueryEscape(mask) {
			return unknown
		}
	}
	return shown
}

const mask = "***"

// masked returns the parameters of a URL with a mask for each password.
func masked(query string, values url.Values) string {
	for name := range values {
		if secretName(name) {
			values.Set(name, mask)
			query = ""
		}
	}
	return cmp.Or(query, EncodeQuery(values))
}
