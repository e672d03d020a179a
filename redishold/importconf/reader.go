package importconf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// property is one key of a file, with its value.
type property struct {
	key    string // the key for messages, with its parent keys
	name   string // the key in the spelling by which the reader finds it, with its parent keys
	line   int
	node   *yaml.Node // the value in YAML
	class  string     // the Java class that the value names
	values []string   // the value, or the values of a list; empty if the key has no value
	nested bool       // the value is neither one value nor a list of values
	later  bool       // the property is in a later document than the first of the file
}

// reader makes Settings from the keys of a file. err keeps the first error; after it the
// Settings do not matter.
type reader struct {
	s           Settings
	err         error
	section     string              // the parent key of the keys for the servers
	keys        map[string]property // all keys of the file
	unread      map[string]property // the keys that were not read yet
	dashDefault bool                // the default of a placeholder begins with a dash, as in ${NAME:-default}
	lookUp      func(name string) (string, bool)
	duration    func(text string) (time.Duration, bool)
}

func newReader(env func(string) (string, bool), duration func(string) (time.Duration, bool)) *reader {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return &reader{keys: make(map[string]property), lookUp: env, duration: duration}
}

// fault records an error about p, or about the file if p is zero. The text must not contain a
// value of the file.
func (r *reader) fault(p property, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.key != "" {
		text = p.key + ": " + text
	}
	if p.line != 0 {
		text = fmt.Sprintf("line %d: %s", p.line, text)
	}
	r.err = cmp.Or(r.err, errors.New(text))
}

// ignore adds p to the ignored keys.
func (r *reader) ignore(p property, why string, serious bool) {
	r.s.Ignored = append(r.s.Ignored, Ignored{Key: p.key, Line: p.line, Why: why, Serious: serious})
}

// reportUnused adds p, which was not read, to the ignored keys. If p must not be ignored, it
// records an error. The parameter `at` is the place of p, and `name` is the name of p at this
// place.
func (r *reader) reportUnused(p property, at place, name string) {
	if !r.s.TLS.Enabled && r.ignoreKnown(p, withoutTLS, name) {
		return
	}
	switch {
	case r.ignoreKnown(p, at, name):
	case strings.HasSuffix(name, "ManagerFactory"):
		r.fault(p, "a Java class cannot be run here; name PEM files with sslTruststore and sslKeystore instead")
	case strings.HasPrefix(strings.ToLower(name), "ssl"):
		r.fault(p, "there is no such key here, and a key that begins with ssl is never ignored; correct or remove it")
	default:
		r.ignore(p, "there is no such key here: is it misspelt, or does it belong to another part of the file?", true)
	}
}

// result returns the Settings, with the ignored keys in the order of the file. If there was an
// error, it returns that error. The parameter `of` is the name of the Java library in this
// error.
func (r *reader) result(of string) (*Settings, error) {
	if r.err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", of, r.err)
	}
	slices.SortStableFunc(r.s.Ignored, func(a, b Ignored) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key))
	})
	return &r.s, nil
}

// index fills the maps of keys. A key that is given twice is an error: the library of the Java
// program decides which of the two values is used.
func (r *reader) index(properties []property) {
	for _, p := range properties {
		if before, twice := r.keys[p.name]; twice {
			r.fault(p, "this key is already in line %d; keep one of them", before.line)
		}
		r.keys[p.name] = p
	}
	r.unread = maps.Clone(r.keys)
}

// get returns the first of several keys that the file has. All of these keys count as read. A
// name that begins with a dot is in the section of the servers. After a key was found, a
// further key of that section is an error, and a further key at the top of the file is ignored.
func (r *reader) get(names ...string) (p property) {
	for _, name := range names {
		name, inSection := strings.CutPrefix(name, ".")
		if inSection {
			name = r.section + "." + name
		}
		found, ok := r.unread[name]
		delete(r.unread, name)
		switch {
		case !ok:
		case p.line == 0:
			p = found
		case inSection:
			r.fault(found, "line %d has %s already; keep one of them", p.line, p.key)
		default:
			r.ignore(found, fmt.Sprintf("line %d sets this value for the servers", p.line), false)
		}
	}
	return p
}

// rest returns the keys that were not read yet, in the order of the file.
func (r *reader) rest() []property {
	return slices.SortedFunc(maps.Values(r.unread), func(a, b property) int { return cmp.Or(a.line-b.line, strings.Compare(a.name, b.name)) })
}

// expand returns the values of p, with the placeholders replaced.
func (r *reader) expand(p property) (values []string) {
	placeholder := regexp.MustCompile(`\$\{([^{}:]*)(:[^{}]*)?\}`)
	for _, text := range p.values {
		filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
			name, fallback, ok := strings.Cut(found[len("${"):len(found)-len("}")], ":")
			if value, set := r.lookUp(name); set {
				return value
			}
			if r.dashDefault {
				var minus bool
				fallback, minus = strings.CutPrefix(fallback, "-")
				ok = minus && fallback != "" && !strings.Contains(fallback, ":-")
			}
			if !ok {
				r.fault(p, "the placeholder %s is not set and has no default: set it in the environment", shown(name))
			}
			return fallback
		})
		if strings.Contains(":"+filled, ":ENC(") || strings.Contains(":"+filled, ":{cipher}") { // of Jasypt and Spring Cloud Config
			r.fault(p, "the value is encrypted, and holdfast cannot decrypt it; write the password itself here, or into the environment")
		}
		if strings.Contains(filled, "${") || strings.Contains(text, `\${`) {
			r.fault(p, "holdfast reads no placeholder inside another placeholder, and no incomplete ${; set a variable to the value")
		}
		values = append(values, filled)
	}
	return values
}

// list returns the values of p. A single value may be several values with commas between them,
// but a value with an "@" is one value, because a comma in it may be a part of a password.
func (r *reader) list(p property) []string {
	values := r.expand(p)
	if p.nested {
		r.fault(p, "write one value here, or several values in a list; put a value with special characters in quotes")
	}
	if len(values) != 1 || strings.Contains(values[0], "@") {
		return values
	}
	parts := regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(values[0]), -1)
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// text returns the only value of p, or "" if p has no value.
func (r *reader) text(p property) string {
	values := append(r.expand(p), "")
	if p.nested || len(values) > 2 {
		r.fault(p, "write one value here; put a value with special characters in quotes")
	}
	return values[0]
}

// word returns the only value of p in lower case. The result `ok` is false if p has no value.
func (r *reader) word(p property) (word string, ok bool) {
	return strings.ToLower(strings.TrimSpace(r.text(p))), len(p.values) > 0
}

func (r *reader) yes(p property, otherwise bool) bool {
	word, ok := r.word(p)
	yes := slices.Contains([]string{"true", "yes", "on", "1"}, word)
	if ok && !yes && !slices.Contains([]string{"false", "no", "off", "0"}, word) {
		r.fault(p, "true or false is expected here")
	}
	return yes || !ok && otherwise
}

// number returns the number in p, or 0 if p has no value. A negative number for a pool means no
// limit. This is also the default, so the result is 0.
func (r *reader) number(p property) int {
	word, ok := r.word(p)
	n, err := strconv.ParseInt(word, 10, 32)
	if ok && (err != nil || n < 0 && !strings.Contains(p.name, "pool.")) {
		r.fault(p, "a number is expected here, 0 or more")
	}
	return max(int(n), 0)
}

// time returns the duration in p, or 0 if p has none. If maybeOff is true, 0 or less means no
// limit in Java. Holdfast cannot switch the limit off, so `time` adds p to the ignored keys. If
// maybeOff is false, 0 or less is an error.
func (r *reader) time(p property, maybeOff bool) time.Duration {
	word, given := r.word(p)
	d, ok := r.duration(word)
	if given && ok && d <= 0 && maybeOff {
		r.ignore(p, "0 or less means no limit in Java, which is not possible here; the default is used", false)
	} else if given && (!ok || d <= 0) {
		r.fault(p, "a time of more than 0 is expected here, such as 3000, which are milliseconds")
	}
	return max(d, 0)
}

// shown returns a key of the file for messages. A text that is not a name is not shown, because
// it may be a part of a value with missing quotes.
func shown(key string) string {
	if regexp.MustCompile(`^[\w.\-\[\]]{1,100}$`).MatchString(key) {
		return key
	}
	return "(not a name)"
}
