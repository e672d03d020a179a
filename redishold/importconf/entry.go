package importconf

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is one key of a file, with what it is set to.
type entry struct {
	key    string // as people read it, with what it stands in
	line   int
	values []string // one, unless it is a list; none if it is set to nothing
	odd    bool     // it is neither a value nor a list of values

	// Of Spring's files only:
	inner   int  // the line before the first of a text that is a file of its own
	typed   bool // a word without quotes that Spring takes for something else
	foreign bool // has characters that depend on the encoding
	indexed bool // its values have keys of their own, which end with an index
}

// fault returns an error about e. Whoever calls it must not quote a value.
func (e entry) fault(format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %s", e.line, e.key, fmt.Sprintf(format, args...))
}

// ignored returns e for Settings.Ignored.
func (e entry) ignored(why string) Ignored { return Ignored{Key: e.key, Line: e.line, Why: why} }

// text returns the one value of e.
func (e entry) text() (string, error) {
	if e.odd || len(e.values) > 1 {
		return "", e.fault("one value is expected here")
	}
	if len(e.values) == 0 {
		return "", nil
	}
	return e.values[0], nil
}

// list returns the values of e; a single one may name several with commas between,
// unless a comma may be one of a password.
func (e entry) list() ([]string, error) {
	if e.odd {
		return nil, e.fault("a list of values is expected here")
	}
	if len(e.values) != 1 || strings.Contains(e.values[0], "@") {
		return e.values, nil
	}
	var values []string
	for part := range strings.SplitSeq(e.values[0], ",") {
		if part = strings.TrimSpace(part); part != "" {
			values = append(values, part)
		}
	}
	return values, nil
}

// given are the keys that are of use. Each is taken by what uses it; what is left
// at the end was of no use after all.
type given map[string]entry

// take returns the entry of the first of names that there is, and removes it. A
// second one is an error: the names mean the same.
func (g given) take(names ...string) (entry, bool, error) {
	var found []entry
	for _, name := range names {
		if e, ok := g[name]; ok {
			found = append(found, e)
			delete(g, name)
		}
	}
	switch len(found) {
	case 0:
		return entry{}, false, nil
	case 1:
		return found[0], true, nil
	default:
		return entry{}, false, found[1].fault("line %d has %s, which means the same; keep one of them", found[0].line, found[0].key)
	}
}

// text returns the value of the first of names that there is, or "".
func (g given) text(names ...string) (string, error) {
	e, ok, err := g.take(names...)
	if err != nil || !ok {
		return "", err
	}
	return e.text()
}

// number returns a number that is not negative.
func (g given) number(names ...string) (int, error) {
	e, ok, err := g.take(names...)
	if err != nil || !ok || len(e.values) == 0 && !e.odd {
		return 0, err
	}
	text, err := e.text()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0, e.fault("a number is expected here, 0 or more")
	}
	return int(n), nil
}

// yes reports whether a switch is on, or what it is if it was not given.
func (g given) yes(unset bool, names ...string) (bool, error) {
	e, ok, err := g.take(names...)
	if err != nil || !ok || len(e.values) == 0 && !e.odd {
		return unset, err
	}
	text, err := e.text()
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	default:
		return false, e.fault("true or false is expected here")
	}
}

// duration returns a time; parse knows how it is written. A time of 0 or less
// switches a limit off in Java: then off is told, if it is of use, why nothing
// comes of it.
func (g given) duration(s *Settings, parse func(string) (time.Duration, bool), off string, names ...string) (time.Duration, error) {
	e, ok, err := g.take(names...)
	if err != nil || !ok || len(e.values) == 0 && !e.odd {
		return 0, err
	}
	text, err := e.text()
	if err != nil {
		return 0, err
	}
	d, ok := parse(strings.TrimSpace(text))
	switch {
	case !ok:
		return 0, e.fault("a time is expected here, such as 3000, which are milliseconds")
	case d > 0:
		return d, nil
	case off == "":
		return 0, e.fault("a time of more than 0 is expected here")
	default:
		s.Ignored = append(s.Ignored, e.ignored(off))
		return 0, nil
	}
}

// leave lists all that is left as ignored.
func (g given) leave(s *Settings, why string, names func(string) bool) {
	for name, e := range g {
		if names(name) {
			s.Ignored = append(s.Ignored, e.ignored(why))
			delete(g, name)
		}
	}
}

// credentials fills in a user name and a password that have keys of their own or
// stand in an address; both would have to agree.
func (g given) credentials(from []address, names [2]string) (user, password string, err error) {
	e, had := g[names[1]]
	if user, err = g.text(names[0]); err != nil {
		return "", "", err
	}
	if password, err = g.text(names[1]); err != nil {
		return "", "", err
	}
	if had && encrypted(password) {
		return "", "", e.fault("it is encrypted, and what decrypts it in Java is not here; put the password itself here, or into the environment")
	}
	for _, a := range from {
		if !a.hasUser {
			continue
		}
		if differ(password, a.password) || differ(user, a.user) {
			return "", "", a.from.fault("the user or the password before the host is not that of another address or key; keep one of them")
		}
		user, password = cmp.Or(a.user, user), cmp.Or(a.password, password)
	}
	return user, password, nil
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// encrypted recognises what Jasypt and Spring Cloud Config replace.
func encrypted(password string) bool {
	return strings.HasPrefix(password, "ENC(") && strings.HasSuffix(password, ")") || strings.HasPrefix(password, "{cipher}")
}

// milliseconds reads times as Redisson has them.
func milliseconds(text string) (time.Duration, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > int64(time.Hour/time.Millisecond)*24*366 {
		return 0, false
	}
	return time.Duration(max(n, -1)) * time.Millisecond, true
}

// shown returns a key of the file for people. What is no name may be a piece of a
// value that lost its quotes.
func shown(key string) string {
	if regexp.MustCompile(`^[\w.\-\[\]]{1,100}$`).MatchString(key) {
		return key
	}
	return "(not a name)"
}

// finish puts what was ignored into the order of the file.
func (s *Settings) finish() *Settings {
	slices.SortStableFunc(s.Ignored, func(a, b Ignored) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Key, b.Key)
	})
	return s
}
