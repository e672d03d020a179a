package importconf

import (
	"bytes"
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"
)

// A file can multiply its keys with aliases, and its values with placeholders.
const (
	maxDepth   = 32 // of mappings in mappings
	maxKeys    = 100_000
	maxLookups = 1000 // for one value
	maxExpand  = 1 << 14
)

// document is one of a file: its keys, in the form that canonical makes.
type document map[string]entry

func (d document) inOrder() []entry {
	return slices.SortedFunc(maps.Values(d), func(a, b entry) int {
		return cmp.Or(a.line-b.line, strings.Compare(a.name, b.name))
	})
}

// add takes a key into a document. Elements of a list may have keys of their own,
// which end with an index.
func (r *reader) add(d document, e entry) {
	key, index, indexed := strings.Cut(e.name, "[")
	if indexed {
		e.name, e.parts = key, 1
	}
	before, twice := d[e.name]
	switch {
	case twice && (!indexed || before.parts == 0):
		r.fault(e, "it is given in line %d already", before.line)
	case indexed && (index != strconv.Itoa(before.parts)+"]" || len(e.values) != 1) && ofRedis(e.name):
		r.fault(e, "the elements of a list are numbered from 0, in order, and none is empty")
	case twice:
		before.values, before.doubt, before.parts = append(before.values, e.values...), before.doubt+e.doubt, before.parts+1
		e = before
	}
	d[e.name] = e
}

// flatYAML returns the documents of an application.yaml.
func (r *reader) flatYAML(file []byte) []document {
	var found []document
	for _, root := range r.documents(file) {
		d := make(document)
		r.flatten(d, root, "", 0)
		found = append(found, d)
	}
	return found
}

// flatten makes dotted keys of mappings in mappings.
func (r *reader) flatten(d document, n *yaml.Node, in string, depth int) {
	for _, e := range r.pairs(n, in) {
		if len(d) > maxKeys || depth > maxDepth {
			r.fault(e, "there are too many keys, or too many in each other")
		}
		if r.err != nil {
			return
		}
		full := in + e.name
		e.key, e.name = shown(full), canonical(full)
		isMapping, login := e.node.Kind == yaml.MappingNode, strings.HasSuffix(e.name, "password") || strings.HasSuffix(e.name, "username")
		if login && e.node.Style == 0 && retyped(e.node.Value) {
			e.doubt = "Spring makes something else of this word; put it in quotes"
		}
		switch {
		case isMapping && r.oneValue(e.name): // it may be a password that begins with a brace
			r.fault(e, "one value is expected here; put it in quotes")
		case isMapping && len(e.node.Content) > 0:
			r.flatten(d, e.node, full+".", depth+1)
		case e.name != "" && len(e.name) < 1000:
			r.add(d, e)
		}
	}
}

// oneValue reports whether a key has no keys below it.
func (r *reader) oneValue(name string) bool {
	if strings.HasSuffix(name, "password") {
		return ofRedis(name) || strings.HasPrefix(name, bundles)
	}
	own := strings.TrimPrefix(strings.TrimPrefix(name, older), newer)
	return own != name && own != "ssl" && slices.ContainsFunc(r.springRows(), func(row row) bool { return row.has(own) })
}

// retyped reports whether Spring's YAML reads a word without quotes as something
// else and makes another text of it: 0123 is 83 there, and yes is true.
func retyped(text string) bool {
	return regexp.MustCompile(`^([-+]?0[0-9_]+|\+[0-9]+|[-+]?[0-9]+_[0-9_]*|[-+]?0[xb][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?` +
		`|[-+]?([0-9][0-9_]*)?\.[0-9_]*([eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)` +
		`|\d{4}-\d\d?-\d\d?([Tt ].*)?|(?i:yes|no|on|off|true|false))$`).MatchString(text)
}

// properties returns the documents of an application.properties. What a line says is
// for the library; which lines belong together is found out here, because the
// library tells no line numbers.
func (r *reader) properties(file []byte) []document {
	file = bytes.TrimPrefix(file, []byte("\uFEFF"))
	file = bytes.ReplaceAll(bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	found := []document{{}}
	whole := regexp.MustCompile(`(?m)^([#!]---$|[ \t\f]*([^#!\s\\]|\\(?s:.))([^\\\n]|\\(?s:.))*\\?)`)
	for _, at := range whole.FindAllIndex(file, -1) {
		text := file[at[0]:at[1]]
		if strings.ContainsAny(string(text[:1]), "#!") {
			found = append(found, document{})
			continue
		}
		e := entry{line: 1 + bytes.Count(file[:at[0]], []byte("\n"))}
		one, err := loader.LoadBytes(text)
		if err != nil || one.Len() != 1 {
			r.fault(e, "this is no property: look at what is behind each backslash")
			return nil
		}
		e.key, e.name = shown(one.Keys()[0]), canonical(one.Keys()[0])
		if value, _ := one.Get(one.Keys()[0]); value != "" {
			e.values = []string{value}
		}
		if bytes.ContainsFunc(text, func(c rune) bool { return c > 0x7e }) {
			e.doubt = "write characters outside of ASCII as \\u00e4: Spring does not read this file as UTF-8"
		}
		r.add(found[len(found)-1], e)
	}
	return found
}

// expand replaces the placeholders in the values of e, the innermost first.
func (r *reader) expand(e entry, to any) entry {
	switch to.(type) {
	case note, warning, refusal:
		return e
	}
	placeholder := regexp.MustCompile(`\$\{([^{}]*)\}`)
	values := make([]string, len(e.values))
	for i, text := range e.values {
		text = strings.ReplaceAll(text, `\${`, "\x00") // which is none
		for lookups := 0; ; lookups++ {
			at := placeholder.FindStringSubmatchIndex(text)
			if at == nil {
				break
			}
			if lookups > maxLookups || len(text) > maxExpand {
				r.fault(e, "its placeholders name each other in a circle, or there are too many")
				return e
			}
			value, ok := r.lookUp(text[at[2]:at[3]])
			if !ok {
				r.fault(e, "a placeholder is not set and has no default")
			}
			text = text[:at[0]] + value + text[at[1]:]
		}
		if strings.Contains(text, "${") && strings.Contains(text, "}") {
			r.fault(e, "a brace within a placeholder is not understood; set a variable to the value")
		}
		values[i] = strings.ReplaceAll(text, "\x00", "${")
	}
	e.values = values
	return e
}

// lookUp returns the value of what stands between the braces.
func (r *reader) lookUp(inner string) (string, bool) {
	name, fallback, ok := strings.Cut(inner, ":")
	variable := strings.ToUpper(strings.NewReplacer(".", "_", "-", "", "[", "_", "]", "").Replace(name))
	for _, spelling := range []string{name, variable} {
		if value, ok := r.env(spelling); ok {
			return strings.ReplaceAll(value, "${", "\x00"), true
		}
	}
	if e, ok := r.keys[canonical(name)]; ok && len(e.values) == 1 {
		return strings.ReplaceAll(e.values[0], `\${`, "\x00"), true
	}
	return fallback, ok
}
