package importconf

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

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
			where := ""
			if line := regexp.MustCompile(`line \d+`).FindString(err.Error()); line != "" {
				where = " at or near " + line
			}
			r.fault(entry{}, "this is no YAML%s: look at the indentation, and put values with special characters in quotes", where)
		case len(document.Content) == 1 && !empty(target(document.Content[0])):
			roots = append(roots, target(document.Content[0]))
		}
	}
	return nil
}

func empty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// pairs returns what a mapping holds. A key that is there twice is an error: which
// one counts depends on the library that reads the file.
func (r *reader) pairs(n *yaml.Node, in string) (found []entry) {
	if n.Kind != yaml.MappingNode {
		r.fault(entry{line: n.Line}, "%skeys with values are expected here", in)
		return nil
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), target(n.Content[i+1])
		e := entry{key: in + shown(key.Value), name: key.Value, line: key.Line, node: value}
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.fault(entry{line: key.Line}, "%sa key is no word", in)
		case key.ShortTag() == "!!merge":
			r.fault(entry{line: key.Line}, "%sthe merge key << is not understood; write the keys out", in)
		case twice:
			r.fault(e, "it is given in line %d already", first)
		}
		seen[key.Value] = key.Line
		e.take(value)
		found = append(found, e)
	}
	return found
}

// take fills in the value, or list of values, and the Java class.
func (e *entry) take(n *yaml.Node) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item = target(item); item.Kind != yaml.ScalarNode {
			e.odd = true
		} else if !empty(item) {
			e.values = append(e.values, item.Value)
		}
	}
	e.class = strings.TrimLeft(n.Tag, "!")
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 { // JSON: {"class": "…"}
		if key := n.Content[i].Value; key == "class" || key == "@class" {
			e.class = target(n.Content[i+1]).Value
		}
	}
}
