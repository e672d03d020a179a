package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// reader reads one file.
type reader struct {
	file  File
	known map[string]sort
	env   func(string) (string, bool)
}

// parse reads content. If env is nil, the file was found, and the user has not named it.
func parse(name string, content []byte, env func(string) (string, bool)) (*File, error) {
	r := reader{file: File{name: name, values: map[string]value{}, found: env == nil}, known: keys(), env: env}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return &r.file, nil
	case err != nil:
		return nil, r.badYAML(err)
	case !errors.Is(decoder.Decode(&second), io.EOF):
		return nil, fmt.Errorf("%s: there is more than one document in it", name)
	case len(document.Content) != 1:
		return &r.file, nil
	}
	if err := r.mapping("", document.Content[0]); err != nil {
		return nil, err
	}
	return &r.file, r.contradiction()
}

// badYAML returns an error for content that is not YAML. It does not wrap the parser's error,
// which may quote the file.
func (r *reader) badYAML(err error) error {
	where := ""
	if line := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); line != nil {
		where = ", at or near line " + line[1]
	}
	return fmt.Errorf("%s%s: this is no YAML: look at the indentation, and put values with special characters in quotes", r.file.name, where)
}

func (r *reader) fault(line int, format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", r.file.name, line, fmt.Sprintf(format, args...))
}

// mapping reads the keys of a section. The parameter in is the name of the section with a dot
// at the end, or "" for the whole file.
func (r *reader) mapping(in string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return r.fault(n.Line, "%skeys with values are expected here", label(in))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, content := n.Content[i], n.Content[i+1]
		name := in + key.Value
		kind, known := r.known[name]
		switch {
		case r.isSection(name):
			if err := r.mapping(name+".", content); err != nil {
				return err
			}
			continue
		case !known:
			return r.fault(key.Line, "unknown key %s%s", shown(name), r.meant(name))
		}
		if before, twice := r.file.values[name]; twice {
			return r.fault(key.Line, "%s is given in line %d already", name, before.line)
		}
		read := r.scalar
		if kind == list || kind == some && isList(content) {
			read = r.list
		}
		if err := read(name, kind, content); err != nil {
			return err
		}
	}
	return nil
}

func label(in string) string {
	if in == "" {
		return ""
	}
	return strings.TrimSuffix(in, ".") + ": "
}

// shown returns a key for messages. A text that is not a name is left out: it may be a piece
// of a value without quotes, such as a password.
func shown(key string) string {
	if regexp.MustCompile(`^[\w.-]{1,60}$`).MatchString(key) {
		return strconv.Quote(key)
	}
	return "(not a name)"
}

// isSection reports whether name is a section, which has keys.
func (r *reader) isSection(name string) bool {
	for key := range r.known {
		if strings.HasPrefix(key, name+".") {
			return true
		}
	}
	return false
}

// meant returns the keys of the section in which an unknown key was found.
func (r *reader) meant(name string) string {
	in := name[:strings.LastIndexByte(name, '.')+1]
	var beside []string
	for key := range r.known {
		rest, ok := strings.CutPrefix(key, in)
		if !ok {
			continue
		}
		rest, _, _ = strings.Cut(rest, ".")
		if !slices.Contains(beside, rest) {
			beside = append(beside, rest)
		}
	}
	slices.Sort(beside)
	return "; there are " + strings.Join(beside, ", ")
}

// scalar reads one value.
func (r *reader) scalar(name string, kind sort, n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode:
		n = n.Alias
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return r.fault(n.Line, "%s: one value is expected here", name)
	}
	expanded, err := r.expand(n, name == "url")
	if err != nil {
		return r.fault(n.Line, "%s: %v", name, err)
	}
	if kind == path && expanded != "" && !filepath.IsAbs(expanded) {
		expanded = filepath.Join(filepath.Dir(r.file.name), expanded)
	}
	if kind == path && r.file.found && !inFolder(expanded) {
		return r.fault(n.Line, "%s: it is not in this folder; %s", name, nameIt)
	}
	r.noteSecret(name, n)
	if err := check(kind, expanded); err != nil {
		return r.fault(n.Line, "%s: %v", name, err)
	}
	v := value{text: expanded, line: n.Line}
	if kind == some {
		for word := range strings.SplitSeq(expanded, ",") {
			if word = strings.TrimSpace(word); word != "" {
				v.list = append(v.list, word)
			}
		}
	}
	r.file.values[name] = v
	return nil
}

func isList(n *yaml.Node) bool {
	return n.Kind == yaml.SequenceNode || n.Kind == yaml.AliasNode && n.Alias.Kind == yaml.SequenceNode
}

// list reads several values.
func (r *reader) list(name string, kind sort, n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return r.fault(n.Line, "%s: a list is expected here, each value after a dash", name)
	}
	v := value{line: n.Line}
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode {
			return r.fault(item.Line, "%s: one value is expected here", name)
		}
		r.noteSecret(name, item)
		expanded, err := r.expand(item, kind == list)
		if err != nil {
			return r.fault(item.Line, "%s: %v", name, err)
		}
		v.list = append(v.list, expanded)
	}
	r.file.values[name] = v
	return nil
}

// nameIt is the remedy in errors about a file that was found, and that the user has not
// named.
const nameIt = "that is for a configuration that --config or HOLDFAST_CONFIG names"

// inFolder reports whether a file is in the current folder or below it, also after links are
// followed.
func inFolder(name string) bool {
	if !filepath.IsLocal(name) {
		return false
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Stat(name)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// noteSecret records that the file contains a password, and not only a variable for it.
func (r *reader) noteSecret(key string, n *yaml.Node) {
	_, inURL := redisurl.Passwords(n.Value)
	if (strings.HasSuffix(key, ".password") || inURL) && n.Value != "" && !strings.Contains(n.Value, "${") {
		r.file.secret = true
	}
}

// check returns an error if a value does not have its type. The error does not quote the
// value.
func check(kind sort, text string) error {
	var err error
	switch kind {
	case duration:
		if _, err = time.ParseDuration(text); err != nil {
			return errors.New("a time is expected here, such as 30s or 1m30s")
		}
	case number:
		if _, err = strconv.ParseUint(text, 10, 31); err != nil {
			return errors.New("a number is expected here, 0 or more")
		}
	case yes:
		if text != "true" && text != "false" {
			return errors.New("true or false is expected here")
		}
	}
	return nil
}

// contradiction returns an error if two keys set the same thing.
func (r *reader) contradiction() error {
	var sources []string
	for _, key := range []string{"url", "redlock", "redisson", "spring"} {
		if _, ok := r.file.Lookup(key); ok {
			sources = append(sources, key)
		}
	}
	if len(sources) > 1 {
		return r.fault(r.file.values[sources[1]].line, "%s and %s both say where the locks are kept; keep one of them", sources[0], sources[1])
	}
	if len(sources) == 1 && (sources[0] == "redisson" || sources[0] == "spring") {
		for _, key := range []string{"redis.user", "redis.password", "redis.password_file", "redis.tls.ca", "redis.tls.cert", "redis.tls.key", "redis.tls.server_name"} {
			if v, ok := r.file.values[key]; ok {
				return r.fault(v.line, "%s: the file that %s names says it; keep one of them", key, sources[0])
			}
		}
	}
	return nil
}
