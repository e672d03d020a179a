package importconf

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// entry is one key of a file, with what it is set to.
type entry struct {
	key    string // as people read it, with what it stands in
	name   string // as the tables have it
	line   int
	node   *yaml.Node // the value, in YAML; never an alias
	values []string   // one, unless it is a list; none if it is set to nothing
	odd    bool       // it is neither a value nor a list of values
	class  string     // the Java class of the value
	doubt  string     // why Java may read another text, and what to do
	parts  int        // how many values have keys of their own, which end with an index
}

// row is a line of a table: keys, separated by spaces, and what becomes of them: a
// pointer to where the value goes, or one of the types below.
type row struct {
	in   string // the parts of a file that have the keys
	keys string
	to   any
}

func (r row) has(name string) bool { return slices.Contains(strings.Fields(r.keys), name) }

type (
	note    string // of no use, and the reason
	warning string // the same, and something has to be done
	refusal string // an error
	unless  struct {
		value string // with this value, or class of Java, it is a note
		note
		warning
	}
	secret struct{ to *string }
	size   struct{ to *int } // below 0 is no limit
	limit  struct {
		to  *time.Duration
		off string // what 0 or less comes to: in Java it switches the limit off
	}
)

// reader makes settings of the entries of a file. The first fault stays in err;
// what is read after it does not matter.
type reader struct {
	s    Settings
	err  error
	from map[any]entry // what set each target
	keys document      // all that Spring's file has, for placeholders

	env      func(name string) (string, bool)
	duration func(text string) (time.Duration, bool)

	addrs, url                    entry
	host                          string // of Spring, as is port
	port                          int
	lettuce, jedis                bool // whether they have a pool
	encrypt, identify             bool
	bundle, storeType, verifyMode string
	ca, cert, private, protocols  entry
}

func newReader(env func(string) (string, bool), duration func(string) (time.Duration, bool)) *reader {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return &reader{from: make(map[any]entry), env: env, duration: duration, identify: true}
}

// fault notes an error about e, or about the file. Whoever calls it must not quote a
// value.
func (r *reader) fault(e entry, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if e.key != "" {
		text = e.key + ": " + text
	}
	if e.line != 0 {
		text = fmt.Sprintf("line %d: %s", e.line, text)
	}
	if r.err == nil {
		r.err = errors.New(text)
	}
}

func (r *reader) ignore(e entry, why string, serious bool) {
	r.s.Ignored = append(r.s.Ignored, Ignored{Key: e.key, Line: e.line, Why: why, Serious: serious})
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

// set does with e what its row says.
func (r *reader) set(e entry, to any) {
	switch to := to.(type) {
	case note:
		r.ignore(e, string(to), false)
	case warning:
		r.ignore(e, string(to), true)
	case refusal:
		r.fault(e, "%s", to)
	case unless:
		if e.class == to.value || slices.Equal(e.values, []string{to.value}) {
			r.set(e, to.note)
		} else {
			r.set(e, to.warning)
		}
	default:
		before, twice := r.from[to]
		switch whole, ok := to.(*entry); {
		case twice && before.name == e.name: // of Redisson, whose section goes before the top of the file
			r.ignore(e, fmt.Sprintf("line %d says it for the servers", before.line), false)
			return
		case twice:
			r.fault(e, "line %d has %s already; keep one of them", before.line, before.key)
		case ok:
			*whole = e
		case e.odd || len(e.values) > 0:
			r.value(e, r.text(e), to)
		}
		r.from[to] = e
	}
}

// value puts the one value of e where it belongs.
func (r *reader) value(e entry, text string, to any) {
	word := strings.TrimSpace(text)
	switch to := to.(type) {
	case *string:
		*to = text
	case secret:
		if encrypted(text) {
			r.fault(e, "it is encrypted, and what decrypts it in Java is not here; put the password itself here, or into the environment")
		}
		*to.to = text
	case *int:
		n, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			r.fault(e, "a number is expected here, 0 or more")
		}
		*to = int(n)
	case size:
		if strings.HasPrefix(word, "-") {
			r.ignore(e, "a number below 0 is no limit, which is the default", false)
			return
		}
		r.value(e, text, to.to)
	case *bool:
		*to = slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(word))
		if !*to && !slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(word)) {
			r.fault(e, "true or false is expected here")
		}
	case limit:
		r.limit(e, word, to)
	}
}

func (r *reader) limit(e entry, text string, to limit) {
	d, ok := r.duration(text)
	switch {
	case !ok:
		r.fault(e, "a time is expected here, such as 3000, which are milliseconds")
	case d > 0:
		*to.to = d
	case to.off == "":
		r.fault(e, "a time of more than 0 is expected here")
	default:
		r.ignore(e, to.off, false)
	}
}

// text returns the one value of e.
func (r *reader) text(e entry) string {
	switch {
	case e.odd || len(e.values) > 1:
		r.fault(e, "one value is expected here")
	case e.doubt != "":
		r.fault(e, "%s", e.doubt)
	case len(e.values) == 1:
		return e.values[0]
	}
	return ""
}

// list returns the values of e; a single one may name several with commas between,
// unless a comma may be one of a password.
func (r *reader) list(e entry) []string {
	switch {
	case e.odd:
		r.fault(e, "a list of values is expected here")
	case e.doubt != "":
		r.fault(e, "%s", e.doubt)
	case len(e.values) == 1 && !strings.Contains(e.values[0], "@"):
		parts := strings.Split(e.values[0], ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	}
	return e.values
}

// encrypted recognises what Jasypt and Spring Cloud Config replace.
func encrypted(password string) bool {
	return strings.HasPrefix(password, "ENC(") && strings.HasSuffix(password, ")") || strings.HasPrefix(password, "{cipher}")
}

// shown returns a key of the file for people. What is no name may be a piece of a
// value that lost its quotes.
func shown(key string) string {
	if regexp.MustCompile(`^[\w.\-\[\]]{1,100}$`).MatchString(key) {
		return key
	}
	return "(not a name)"
}
