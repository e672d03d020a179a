package importconf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// documents returns the roots of the documents in a YAML file; empty ones are
// left out.
func documents(file []byte) ([]*yaml.Node, error) {
	var roots []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return nil, badYAML(err)
		case len(document.Content) == 1 && !empty(document.Content[0]):
			roots = append(roots, document.Content[0])
		}
	}
}

// badYAML does not wrap the parser's error, which may quote the file.
func badYAML(err error) error {
	where := ""
	if line := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); line != nil {
		where = " at or near line " + line[1]
	}
	return fmt.Errorf("this is no YAML%s: look at the indentation, and put values with special characters in quotes", where)
}

func empty(n *yaml.Node) bool {
	n = target(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// pair is a key of a mapping and its value.
type pair struct {
	key   string
	line  int
	value *yaml.Node // never an alias
}

// pairs returns what a mapping holds. A key that is there twice is an error: which
// one counts depends on the library that reads the file.
func pairs(n *yaml.Node, in string) ([]pair, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: %skeys with values are expected here", n.Line, in)
	}
	seen := make(map[string]int)
	var found []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := target(n.Content[i]), target(n.Content[i+1])
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: %sa key is no word", key.Line, in)
		case key.ShortTag() == "!!merge":
			return nil, fmt.Errorf("line %d: %sthe merge key << is not understood; write the keys out", key.Line, in)
		}
		if first, twice := seen[key.Value]; twice {
			return nil, fmt.Errorf("line %d: %s%s: it is given in line %d already", key.Line, in, shown(key.Value), first)
		}
		seen[key.Value] = key.Line
		found = append(found, pair{key.Value, key.Line, value})
	}
	return found, nil
}

// entryOf returns a key with its value or list of values.
func (p pair) entryOf(in string) entry {
	e := entry{key: in + shown(p.key), line: p.line}
	switch {
	case empty(p.value):
	case p.value.Kind == yaml.ScalarNode:
		e.values = []string{p.value.Value}
	case p.value.Kind == yaml.SequenceNode:
		for _, item := range p.value.Content {
			if item = target(item); item.Kind != yaml.ScalarNode {
				e.odd = true
			} else if !empty(item) {
				e.values = append(e.values, item.Value)
			}
		}
	default:
		e.odd = true
	}
	return e
}
