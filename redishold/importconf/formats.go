package importconf

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"
)

// documents returns the roots of the documents in a YAML file. It leaves out empty documents.
func (r *reader) documents(file []byte) (roots []*yaml.Node) {
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	for r.err == nil {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			return roots
		case err != nil: // not wrapped: the parser's error may quote the file
			where := regexp.MustCompile(`line \d+`).FindString(err.Error())
			r.fault(property{}, "this is not YAML at or near %s: check the indentation, put a space after each colon, and put values with special characters in quotes", where)
		case len(document.Content) == 1 && !empty(document.Content[0]):
			roots = append(roots, document.Content[0])
		}
	}
	return nil
}

func empty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// pairs returns the properties of a mapping. The parameter `in` is the property whose value is
// the mapping. The mapping at the top of the file is not the value of a property: for this
// mapping, the key of `in` is empty.
func (r *reader) pairs(n *yaml.Node, in property) (found []property) {
	if in.key != "" {
		in.key, in.name = in.key+".", in.name+"."
	}
	if n.Kind != yaml.MappingNode {
		r.fault(property{line: n.Line}, "%skeys with values are expected here", in.key)
		return nil
	}
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fault(property{line: key.Line}, "%sa key is not a word", in.key)
		case key.ShortTag() == "!!merge":
			r.fault(property{line: key.Line}, "%sholdfast does not read the merge key <<; write out the keys", in.key)
		}
		p := property{key: in.key + shown(key.Value), name: in.name + key.Value, line: key.Line, node: value, class: strings.TrimLeft(value.Tag, "!"), later: in.later}
		items := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			items = value.Content
		}
		for _, item := range items {
			if item.Kind != yaml.ScalarNode {
				p.nested = true
			} else if !empty(item) {
				p.values = append(p.values, item.Value)
			}
		}
		found = append(found, p)
	}
	return found
}

// flatten returns the properties of a mapping, and of the mappings in it. The key of a property
// in an inner mapping has the keys of its outer mappings before it, with dots between them. The
// parameter `in` has the same meaning as in pairs.
func (r *reader) flatten(n *yaml.Node, in property) (found []property) {
	for _, p := range r.pairs(n, in) {
		if p.name = canonical(p.name); p.node.Kind == yaml.AliasNode && strings.HasPrefix(p.name, "spring") {
			r.fault(p, "holdfast does not read an alias of YAML; write out its value")
		}
		last := p.name[strings.LastIndexByte(p.name, '.')+1:]
		// A mapping in place of one value may be a password that begins with a brace.
		oneValue := ofRedis(p) && slices.Contains([]string{"password", "username", "url", "host", "port", "nodes"}, last)
		if p.node.Kind == yaml.MappingNode && len(p.node.Content) > 0 && !oneValue {
			found = append(found, r.flatten(p.node, p)...)
			continue
		}
		number := regexp.MustCompile(`^[1-9][0-9]*$`)
		if oneValue && last == "password" && p.node.Style == 0 && p.node.ShortTag() != "!!str" && !number.MatchString(p.node.Value) && len(p.values) > 0 {
			r.fault(p, "Spring may change this value, for example 0123 to 83; put the value in quotes")
		}
		found = append(found, p)
	}
	return found
}

// properties returns the properties of an application.properties. The library parses a single
// property, but has no line numbers. So this function first finds the lines of each property,
// and then lets the library parse them.
func (r *reader) properties(file []byte) (found []property) {
	file = regexp.MustCompile(`\r\n?`).ReplaceAll(file, []byte("\n"))
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	later := false
	whole := regexp.MustCompile(`(?m)^([#!]---$|[ \t\f]*([^#!\s\\]|\\(?s:.))([^\\\n]|\\(?s:.))*\\?)`)
	for _, at := range whole.FindAllIndex(file, -1) {
		text := file[at[0]:at[1]]
		if text[0] == '#' || text[0] == '!' {
			later = len(found) > 0
			continue
		}
		p := property{line: 1 + bytes.Count(file[:at[0]], []byte("\n")), later: later}
		one, err := loader.LoadBytes(text)
		if err != nil || one.Len() != 1 {
			r.fault(p, "this is not a property: check the characters after each backslash")
			return nil
		}
		key := one.Keys()[0]
		p.key, p.name = shown(key), canonical(key)
		if value, _ := one.Get(key); value != "" {
			p.values = []string{value}
		}
		if ofRedis(p) && bytes.ContainsFunc(text, fullWidth) {
			r.fault(p, "%v", errFullWidth)
		}
		if ofRedis(p) && bytes.ContainsFunc(text, func(c rune) bool { return c > 0x7e }) {
			r.fault(p, "write characters outside of ASCII as \\u00e4: Spring does not read this file as UTF-8")
		}
		found = append(found, p)
	}
	return found
}
