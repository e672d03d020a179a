package access

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Span is the part of a text from the byte From to before the byte To.
type Span struct{ From, To int }

// Secrets returns where a text that is a URL, or has one in it, keeps passwords:
// before the hosts, and in parameters. In doubt, as of a URL that cannot be taken
// apart, it takes more for a password, not less. The spans are in order, and none
// overlaps another.
func Secrets(text string) []Span {
	spans := secretParameters(text)
	if password, ok := passwordBeforeHosts(text); ok {
		spans = append(spans, password)
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

// passwordBeforeHosts returns where the password of "user:password@" is.
func passwordBeforeHosts(text string) (Span, bool) {
	scheme := strings.Index(text, "://")
	if scheme < 0 {
		return Span{}, false
	}
	begin := scheme + len("://")
	end := len(text)
	if i := strings.IndexAny(text[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	// A slash that somebody forgot to encode is part of the password.
	if at := strings.LastIndexByte(text, '@'); at > end {
		end = at + 1
	}
	at := strings.LastIndexByte(text[begin:end], '@')
	if at < 0 {
		return Span{}, false
	}
	colon := strings.IndexByte(text[begin:begin+at], ':')
	return Span{begin + colon + 1, begin + at}, colon >= 0
}

// secretParameters returns where the values of the parameters of a URL are that are
// passwords. A value ends at the next &.
func secretParameters(text string) []Span {
	scheme := strings.Index(text, "://")
	if scheme < 0 {
		return nil
	}
	from := scheme + len("://")
	authority, _, _ := strings.Cut(text[from:], "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 && !strings.ContainsAny(authority[:at], "?#") {
		from += at + 1 // a password may look like a parameter
	}
	var spans []Span
	for {
		equals := strings.IndexByte(text[from:], '=')
		if equals < 0 {
			return spans
		}
		equals += from
		name := text[strings.LastIndexAny(text[:equals], "?&;#/")+1 : equals]
		from = equals + 1
		if !secretName(decoded(name)) {
			continue
		}
		to := len(text)
		if next := strings.IndexByte(text[from:], '&'); next >= 0 {
			to = from + next
		}
		spans = append(spans, Span{from, to})
		from = to
	}
}

// secretName reports whether the value of a parameter is a password. The name is
// without encoding.
func secretName(name string) bool { return strings.Contains(strings.ToLower(name), "password") }

// decoded returns the name of a parameter without its encoding. What cannot be
// decoded stays as it is: the URL is refused then, but somebody has typed it.
func decoded(name string) string {
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	var plain strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '%' && i+2 < len(name) {
			if c, err := strconv.ParseUint(name[i+1:i+3], 16, 8); err == nil {
				plain.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		plain.WriteByte(name[i])
	}
	return plain.String()
}
