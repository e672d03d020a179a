package importconf

import (
	"cmp"
	_ "embed" // ignored.txt
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

// entry is one key of a file, with what it is set to.
type entry struct {
	key     string // as people read it, with what it stands in
	name    string // as the program does
	line    int
	node    *yaml.Node // the value, in YAML
	class   string     // of Java, that the value says it is
	values  []string   // one, unless it is a list; none if it is set to nothing
	odd     bool       // it is neither a value nor a list of values
	further bool       // it stands behind the first document
}

// reader makes settings of the keys of a file. The first fault stays in err; what is
// read after it does not matter.
type reader struct {
	s        Settings
	err      error
	section  string           // what the keys of the servers stand in
	keys     map[string]entry // all of the file
	left     map[string]entry // those that were not read
	minus    bool             // a placeholder's default begins with one
	lookUp   func(name string) (string, bool)
	duration func(text string) (time.Duration, bool)
}

func newReader(env func(string) (string, bool), duration func(string) (time.Duration, bool)) *reader {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return &reader{keys: make(map[string]entry), lookUp: env, duration: duration}
}

// fault notes an error about e, or about the file. Its caller must not quote a
// value.
func (r *reader) fault(e entry, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if e.key != "" {
		text = e.key + ": " + text
	}
	if e.line != 0 {
		text = fmt.Sprintf("line %d: %s", e.line, text)
	}
	r.err = cmp.Or(r.err, errors.New(text))
}

// ignoredKeys has a block for keys that are of no use here: the sections in which they
// may stand, the keys, and why they are not used. Where anything but one value, or class
// of Java, has to be dealt with, two lines more have that value, and what to do.
//
//go:embed ignored.txt
var ignoredKeys string

// ignoreKnown lists e if ignored.txt has its name in a section.
func (r *reader) ignoreKnown(e entry, section, name string) bool {
	for block := range strings.SplitSeq(strings.TrimSpace(ignoredKeys), "\n\n") {
		lines := strings.Split(block, "\n")
		sections, keys, _ := strings.Cut(lines[0], ": ")
		if !strings.Contains(sections, section) || !slices.Contains(strings.Fields(keys), name) {
			continue
		}
		if len(lines) == 2 || e.class == lines[2] || slices.Equal(e.values, lines[2:3]) {
			r.ignore(e, lines[1], false)
		} else {
			r.ignore(e, lines[3], true)
		}
		return true
	}
	return false
}

// ignore lists e as not used.
func (r *reader) ignore(e entry, why string, serious bool) {
	r.s.Ignored = append(r.s.Ignored, Ignored{Key: e.key, Line: e.line, Why: why, Serious: serious})
}

// leave lists e, which was not read, by its name in a section.
func (r *reader) leave(e entry, section, name string) {
	switch {
	case !r.s.TLS.Enabled && r.ignoreKnown(e, "unencrypted", name), r.ignoreKnown(e, section, name):
	case strings.HasSuffix(name, "ManagerFactory"):
		r.fault(e, "a Java class cannot be run here; name PEM files with sslTruststore and sslKeystore instead")
	case strings.HasPrefix(strings.ToLower(name), "ssl"):
		r.fault(e, "there is no such key here, and nothing that begins with ssl is passed over")
	default:
		r.ignore(e, "there is no such key here: is it misspelt, or does it belong to another part of the file?", true)
	}
}

// result returns the settings, with what was ignored in the order of the file.
func (r *reader) result(of string) (*Settings, error) {
	if r.err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", of, r.err)
	}
	slices.SortStableFunc(r.s.Ignored, func(a, b Ignored) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key))
	})
	return &r.s, nil
}

// index files keys. One that is there twice is an error: which one counts depends on the
// library that reads the file.
func (r *reader) index(entries []entry) {
	for _, e := range entries {
		if before, twice := r.keys[e.name]; twice {
			r.fault(e, "it is given in line %d already", before.line)
		}
		r.keys[e.name] = e
	}
	r.left = maps.Clone(r.keys)
}

// get returns the one key of several that is given. The names of those in the section
// begin with a dot, and such a key goes before one at the top.
func (r *reader) get(names ...string) (e entry) {
	for _, name := range names {
		name, inSection := strings.CutPrefix(name, ".")
		if inSection {
			name = r.section + "." + name
		}
		found, ok := r.left[name]
		delete(r.left, name)
		switch {
		case !ok:
		case e.line == 0:
			e = found
		case inSection:
			r.fault(found, "line %d has %s already; keep one of them", e.line, e.key)
		default:
			r.ignore(found, fmt.Sprintf("line %d says it for the servers", e.line), false)
		}
	}
	return e
}

// rest returns the keys that were not read, in the order of the file.
func (r *reader) rest() []entry {
	return slices.SortedFunc(maps.Values(r.left), func(a, b entry) int { return cmp.Or(a.line-b.line, strings.Compare(a.name, b.name)) })
}

// expand returns the values of e, with placeholders replaced.
func (r *reader) expand(e entry) (values []string) {
	placeholder := regexp.MustCompile(`\$\{([^{}:]*)(:[^{}]*)?\}`)
	for _, text := range e.values {
		filled := placeholder.ReplaceAllStringFunc(text, func(found string) string {
			name, fallback, ok := strings.Cut(found[len("${"):len(found)-len("}")], ":")
			if value, set := r.lookUp(name); set {
				return value
			}
			if after, minus := strings.CutPrefix(fallback, "-"); r.minus {
				fallback, ok = after, minus && after != "" && !strings.Contains(after, ":-")
			}
			if !ok {
				r.fault(e, "the placeholder %s is not set and has no default: set it in the environment", shown(name))
			}
			return fallback
		})
		if strings.Contains(":"+filled, ":ENC(") || strings.Contains(":"+filled, ":{cipher}") { // of Jasypt and Spring Cloud Config
			r.fault(e, "it is encrypted, and what decrypts it in Java is not here; put the password itself here, or into the environment")
		}
		if strings.Contains(filled, "${") || strings.Contains(text, `\${`) {
			r.fault(e, "placeholders within each other are not understood, nor is any other ${; set a variable to the value")
		}
		values = append(values, filled)
	}
	return values
}

// list returns the values of e; a single one may name several with commas between,
// unless a comma may be one of a password.
func (r *reader) list(e entry) []string {
	values := r.expand(e)
	if e.odd {
		r.fault(e, "one value is expected here, or several in a list; put it in quotes")
	}
	if len(values) != 1 || strings.Contains(values[0], "@") {
		return values
	}
	parts := regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(values[0]), -1)
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// text returns the one value of e.
func (r *reader) text(e entry) string {
	values := append(r.expand(e), "")
	if e.odd || len(values) > 2 {
		r.fault(e, "one value is expected here; put it in quotes")
	}
	return values[0]
}

// word returns the one value of e in lower case; ok is false if it is set to nothing.
func (r *reader) word(e entry) (word string, ok bool) {
	return strings.ToLower(strings.TrimSpace(r.text(e))), len(e.values) > 0
}

func (r *reader) yes(e entry, otherwise bool) bool {
	word, ok := r.word(e)
	yes := slices.Contains([]string{"true", "yes", "on", "1"}, word)
	if ok && !yes && !slices.Contains([]string{"false", "no", "off", "0"}, word) {
		r.fault(e, "true or false is expected here")
	}
	return yes || !ok && otherwise
}

// number reads a number; a pool that has one below 0 has no limit, which is the default.
func (r *reader) number(e entry) int {
	word, ok := r.word(e)
	n, err := strconv.ParseInt(word, 10, 32)
	if ok && (err != nil || n < 0 && !strings.Contains(e.name, "pool.")) {
		r.fault(e, "a number is expected here, 0 or more")
	}
	return max(int(n), 0)
}

// time reads a time, which 0 or less may switch off in Java.
func (r *reader) time(e entry, maybeOff bool) time.Duration {
	word, given := r.word(e)
	d, ok := r.duration(word)
	if given && ok && d <= 0 && maybeOff {
		r.ignore(e, "0 or less switches the limit off, which cannot be done here; the default stands", false)
	} else if given && (!ok || d <= 0) {
		r.fault(e, "a time of more than 0 is expected here, such as 3000, which are milliseconds")
	}
	return max(d, 0)
}

// shown returns a key of the file for people. What is no name may be a piece of a
// value that lost its quotes.
func shown(key string) string {
	if regexp.MustCompile(`^[\w.\-\[\]]{1,100}$`).MatchString(key) {
		return key
	}
	return "(not a name)"
}
