package importconf

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"
)

const (
	maxDepth = 32      // of mappings in mappings
	maxKeys  = 100_000 // of a file, aliases included: they can multiply
)

// readYAML returns the documents of an application.yaml.
func readYAML(file []byte) ([]document, error) {
	roots, err := documents(file)
	if err != nil {
		return nil, err
	}
	found := make([]document, len(roots))
	keys := 0
	for i, root := range roots {
		f := flattener{into: make(document), keys: &keys}
		if err := f.mapping(target(root), "", 0); err != nil {
			return nil, err
		}
		found[i] = f.into
	}
	return found, nil
}

// flattener makes dotted keys of mappings in mappings.
type flattener struct {
	into document
	keys *int
}

func (f flattener) mapping(n *yaml.Node, in string, depth int) error {
	within, err := pairs(n, in)
	if err != nil {
		return err
	}
	for _, p := range within {
		if *f.keys++; *f.keys > maxKeys || depth > maxDepth {
			return fmt.Errorf("line %d: there are too many keys, or too many in each other", p.line)
		}
		key := canonical(in + p.key)
		switch {
		case p.value.Kind == yaml.MappingNode && oneValue(key):
			return p.entryOf(in).fault("one value is expected here; put it in quotes")
		case p.value.Kind == yaml.MappingNode && len(p.value.Content) > 0:
			if err := f.mapping(p.value, in+p.key+".", depth+1); err != nil {
				return err
			}
			continue
		case !relevant(key):
			continue
		}
		e := p.entryOf("")
		e.key = shown(in + p.key)
		if p.value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			e.inner = p.value.Line
		} else {
			e.inner = p.line - 1
		}
		e.typed = p.value.Kind == yaml.ScalarNode && p.value.Style == 0 && retyped(p.value.Value)
		if before, twice := f.into[key]; twice {
			return e.fault("it is given in line %d already", before.line)
		}
		f.into[key] = e
	}
	return nil
}

// oneValue reports whether a key has no keys below it. What looks like one may be
// a piece of a password that begins with a brace, and must not be shown.
func oneValue(key string) bool {
	if strings.HasSuffix(key, "password") {
		return ofRedis(key) || strings.HasPrefix(key, bundles)
	}
	name, _ := strings.CutPrefix(key, older)
	name, _ = strings.CutPrefix(name, newer)
	return name != key && name != "ssl" && springUses(name)
}

// relevant reports whether a key can matter: it is one of Redis', or can be the
// value of a placeholder.
func relevant(key string) bool { return key != "" && len(key) < 1000 }

// retyped reports whether Spring's YAML reads a word without quotes as something
// else and makes another text of it: 0123 is 83 there, and yes is true.
func retyped(text string) bool {
	return regexp.MustCompile(`^([-+]?0[0-9_]+|\+[0-9]+|[-+]?[0-9]+_[0-9_]*|[-+]?0[xb][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?` +
		`|[-+]?([0-9][0-9_]*)?\.[0-9_]*([eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)` +
		`|\d{4}-\d\d?-\d\d?([Tt ].*)?|(?i:yes|no|on|off|true|false))$`).MatchString(text)
}

// readProperties returns the documents of an application.properties. What a line
// says is for the library; which lines belong together is found out here, because
// the library tells no line numbers.
func readProperties(file []byte) ([]document, error) {
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	found := []document{{}}
	for _, l := range logicalLines(file) {
		if l.text == "#---" || l.text == "!---" {
			found = append(found, document{})
			continue
		}
		one, err := loader.LoadBytes([]byte(l.text))
		if err != nil {
			return nil, fmt.Errorf("line %d: this is no property: look at what is behind each backslash", l.number)
		}
		for _, key := range one.Keys() {
			value, _ := one.Get(key)
			if err := found[len(found)-1].add(l, key, value); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// line is one line of a properties file with those that continue it.
type line struct {
	number int
	text   string
}

func logicalLines(file []byte) []line {
	file = bytes.TrimPrefix(file, []byte("\uFEFF"))
	file = bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n"))
	file = bytes.ReplaceAll(file, []byte("\r"), []byte("\n"))
	var lines []line
	open := false
	for i, text := range strings.Split(string(file), "\n") {
		start := strings.TrimLeft(text, " \t\f")
		switch {
		case open:
			lines[len(lines)-1].text += "\n" + text
		case start == "" || strings.ContainsAny(start[:1], "#!") && text != "#---" && text != "!---":
			continue
		default:
			lines = append(lines, line{i + 1, text})
		}
		backslashes := len(text) - len(strings.TrimRight(text, `\`))
		open = backslashes%2 == 1
	}
	return lines
}

// add takes a property over. Elements of a list have keys of their own, which end
// with an index.
func (d document) add(l line, key, value string) error {
	e := entry{key: shown(key), line: l.number, inner: l.number - 1, foreign: strings.ContainsFunc(l.text, func(r rune) bool { return r > 0x7e })}
	if value != "" {
		e.values = []string{value}
	}
	name, index, indexed := strings.Cut(canonical(key), "[")
	before, twice := d[name]
	if !indexed {
		if twice {
			return e.fault("it is given in line %d already", before.line)
		}
		d[name] = e
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
	switch {
	case err != nil:
		d[canonical(key)] = e
		return nil
	case twice && !before.indexed:
		return e.fault("it is given in line %d already, as a whole", before.line)
	case n != len(before.values) || value == "":
		return e.fault("the elements of a list are numbered from 0, in order, and none is empty")
	case twice:
		before.values, before.foreign = append(before.values, value), before.foreign || e.foreign
		d[name] = before
		return nil
	}
	e.key, _, _ = strings.Cut(e.key, "[")
	e.indexed = true
	d[name] = e
	return nil
}

var errUnset = errors.New("a placeholder is not set and has no default")
