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

// documents returns the roots of the documents in a YAML file; empty ones are
// left out.
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
			r.fault(entry{}, "this is no YAML at or near %s: look at the indentation, put a space behind each colon, and values with special characters in quotes", where)
		case len(document.Content) == 1 && !empty(document.Content[0]):
			roots = append(roots, document.Content[0])
		}
	}
	return nil
}

func empty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// pairs returns what a mapping holds, whose own entry is in.
func (r *reader) pairs(n *yaml.Node, in entry) (found []entry) {
	if in.key != "" {
		in.key, in.name = in.key+".", in.name+"."
	}
	if n.Kind != yaml.MappingNode {
		r.fault(entry{line: n.Line}, "%skeys with values are expected here", in.key)
		return nil
	}
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fault(entry{line: key.Line}, "%sa key is no word", in.key)
		case key.ShortTag() == "!!merge":
			r.fault(entry{line: key.Line}, "%sthe merge key << is not understood; write the keys out", in.key)
		}
		e := entry{key: in.key + shown(key.Value), name: in.name + key.Value, line: key.Line, node: value, class: strings.TrimLeft(value.Tag, "!"), further: in.further}
		items := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			items = value.Content
		}
		for _, item := range items {
			if item.Kind != yaml.ScalarNode {
				e.odd = true
			} else if !empty(item) {
				e.values = append(e.values, item.Value)
			}
		}
		found = append(found, e)
	}
	return found
}

// flatten makes dotted keys of mappings in mappings.
func (r *reader) flatten(n *yaml.Node, in entry) (found []entry) {
	for _, e := range r.pairs(n, in) {
		if e.name = canonical(e.name); e.node.Kind == yaml.AliasNode && strings.HasPrefix(e.name, "spring") {
			r.fault(e, "an alias is not understood; write out what it stands for")
		}
		own := e.name[strings.LastIndexByte(e.name, '.')+1:]
		// A mapping in place of one value may be a password that begins with a brace.
		oneValue := ofRedis(e) && slices.Contains([]string{"password", "username", "url", "host", "port", "nodes"}, own)
		if e.node.Kind == yaml.MappingNode && len(e.node.Content) > 0 && !oneValue {
			found = append(found, r.flatten(e.node, e)...)
			continue
		}
		number := regexp.MustCompile(`^[1-9][0-9]*$`)
		if oneValue && own == "password" && e.node.Style == 0 && e.node.ShortTag() != "!!str" && !number.MatchString(e.node.Value) && len(e.values) > 0 {
			r.fault(e, "Spring may make something else of this word, as 83 of 0123; put it in quotes")
		}
		found = append(found, e)
	}
	return found
}

// properties returns the keys of an application.properties. What a line says is
// for the library; which lines belong together is found out here, because the
// library gives no line numbers.
func (r *reader) properties(file []byte) (found []entry) {
	file = regexp.MustCompile(`\r\n?`).ReplaceAll(file, []byte("\n"))
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	further := false
	whole := regexp.MustCompile(`(?m)^([#!]---$|[ \t\f]*([^#!\s\\]|\\(?s:.))([^\\\n]|\\(?s:.))*\\?)`)
	for _, at := range whole.FindAllIndex(file, -1) {
		text := file[at[0]:at[1]]
		if text[0] == '#' || text[0] == '!' {
			further = len(found) > 0
			continue
		}
		e := entry{line: 1 + bytes.Count(file[:at[0]], []byte("\n")), further: further}
		one, err := loader.LoadBytes(text)
		if err != nil || one.Len() != 1 {
			r.fault(e, "this is no property: look at what is behind each backslash")
			return nil
		}
		key := one.Keys()[0]
		e.key, e.name = shown(key), canonical(key)
		if value, _ := one.Get(key); value != "" {
			e.values = []string{value}
		}
		if ofRedis(e) && bytes.ContainsFunc(text, fullWidth) {
			r.fault(e, "%v", errFullWidth)
		}
		if ofRedis(e) && bytes.ContainsFunc(text, func(c rune) bool { return c > 0x7e }) {
			r.fault(e, "write characters outside of ASCII as \\u00e4: Spring does not read this file as UTF-8")
		}
		found = append(found, e)
	}
	return found
}
