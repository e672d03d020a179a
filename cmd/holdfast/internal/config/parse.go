package config

import (
	"bytes"
	"cmp"
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
	known map[string]valueType
	env   func(string) (string, bool)
}

// parse reads the content of a file. If `env` is nil, the user has not named the file.
func parse(name string, content []byte, env func(string) (string, bool)) (File, error) {
	r := reader{
		file:  File{Name: name, Found: env == nil, values: map[string]value{}},
		known: keys(),
		env:   env,
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return r.file, nil
	}
	if err != nil {
		return File{}, r.badYAML(err)
	}
	if !errors.Is(decoder.Decode(&second), io.EOF) {
		return File{}, fmt.Errorf("%s: the file has more than one YAML document; keep one of them", name)
	}
	if len(document.Content) != 1 {
		return r.file, nil
	}
	if err := r.mapping("", document.Content[0]); err != nil {
		return File{}, err
	}
	return r.file, r.contradiction()
}

// badYAML returns an error for content that is not YAML. It does not wrap the parser's error,
// which may quote the file.
func (r *reader) badYAML(err error) error {
	where := ""
	if line := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); line != nil {
		where = ", at or near line " + line[1]
	}
	return fmt.Errorf("%s%s: this is not YAML: check the indentation, and put values with special characters in quotes", r.file.Name, where)
}

func (r *reader) fault(line int, format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", r.file.Name, line, fmt.Sprintf(format, args...))
}

// mapping reads the keys of a section. The parameter `in` is the name of the section with a dot
// at the end, or "" for the whole file.
func (r *reader) mapping(in string, n *yaml.Node) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return r.fault(n.Line, "%s: keys with values are expected here", cmp.Or(strings.TrimSuffix(in, "."), "the file"))
	}
	for pair := range slices.Chunk(n.Content, 2) {
		key := pair[0]
		content := pair[1]
		name := in + key.Value
		if len(r.within(name+".")) > 0 {
			if err := r.mapping(name+".", content); err != nil {
				return err
			}
			continue
		}
		is, known := r.known[name]
		if !known {
			section := name[:strings.LastIndexByte(name, '.')+1]
			return r.fault(key.Line, "unknown key %s; the known keys are %s", shown(name), strings.Join(r.within(section), ", "))
		}
		if before, twice := r.file.values[name]; twice {
			return r.fault(key.Line, "%s is already in line %d; keep one of them", name, before.line)
		}
		if err := r.value(name, is, content); err != nil {
			return err
		}
	}
	return nil
}

// shown returns a key for messages. It leaves out a key that does not look like a name, because
// it may be a piece of a value without quotes, such as a password.
func shown(key string) string {
	if regexp.MustCompile(`^[\w.-]{1,60}$`).MatchString(key) {
		return strconv.Quote(key)
	}
	return "(not a name)"
}

// within returns the keys of a section, sorted. The parameter `section` is the name of the
// section with a dot at the end, or "" for the whole file.
func (r *reader) within(section string) []string {
	var all []string
	for key := range r.known {
		if rest, ok := strings.CutPrefix(key, section); ok {
			first, _, _ := strings.Cut(rest, ".")
			all = append(all, first)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// value reads the value of a key, or its values.
func (r *reader) value(name string, is valueType, n *yaml.Node) error {
	n = resolved(n)
	if isNull(n) {
		return nil
	}
	items := []*yaml.Node{n}
	several := n.Kind == yaml.SequenceNode && (is == typeURLs || is == typeTexts)
	if several {
		items = n.Content
	}
	if is == typeURLs && !several || len(items) == 0 {
		return r.fault(n.Line, "%s: a list is expected here, each value after a dash", name)
	}
	v := value{line: n.Line}
	for _, item := range items {
		text, err := r.text(name, is, resolved(item))
		if err != nil {
			return r.fault(item.Line, "%s: %v", name, err)
		}
		v.list = append(v.list, text)
	}
	if is == typeTexts && !several {
		words := regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(v.list[0]), -1)
		v.list = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	}
	r.file.values[name] = v
	return nil
}

// resolved returns the node that an alias stands for, and any other node as it is.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// text returns one value. It replaces variables, and puts the folder of the file before a
// relative path. An error does not quote the value.
func (r *reader) text(name string, is valueType, n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("one value is expected here")
	}
	_, inURL := redisurl.Passwords(n.Value)
	if (strings.HasSuffix(name, ".password") || inURL) && n.Value != "" && !strings.Contains(n.Value, "${") {
		r.file.Secret = true
	}
	text, err := r.expand(n.Value, name == "url" || is == typeURLs)
	if err != nil {
		return "", err
	}
	switch is {
	case typePath:
		if text != "" && !filepath.IsAbs(text) {
			text = filepath.Join(filepath.Dir(r.file.Name), text)
		}
		if r.file.Found && !inFolder(text) {
			return "", errors.New("the file is not in this folder; " + nameIt)
		}
	case typeDuration:
		if _, err := time.ParseDuration(text); err != nil {
			return "", errors.New("a time is expected here, such as 30s or 1m30s")
		}
	case typeNumber:
		if _, err := strconv.ParseUint(text, 10, 31); err != nil {
			return "", errors.New("a number is expected here, 0 or more")
		}
	case typeBool:
		if text != "true" && text != "false" {
			return "", errors.New("true or false is expected here")
		}
	}
	return text, nil
}

// nameIt is the remedy in errors about a file that Read found in the current folder.
const nameIt = "that works only in a configuration that --config or HOLDFAST_CONFIG names"

// inFolder reports whether a file is in the current folder or below it, also after links are
// followed.
func inFolder(name string) bool {
	root, err := os.OpenRoot(".")
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Stat(name)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// contradiction returns an error if two keys set the same thing.
func (r *reader) contradiction() error {
	sources := slices.DeleteFunc([]string{"url", "redlock", "redisson", "spring"}, func(key string) bool {
		_, ok := r.file.values[key]
		return !ok
	})
	if len(sources) > 1 {
		return r.fault(r.file.values[sources[1]].line, "%s and %s both name the store of the locks; keep one of them", sources[0], sources[1])
	}
	if len(sources) == 1 && (sources[0] == "redisson" || sources[0] == "spring") {
		for _, key := range []string{"redis.user", "redis.password", "redis.password_file", "redis.tls.ca", "redis.tls.cert", "redis.tls.key", "redis.tls.server_name"} {
			if v, ok := r.file.values[key]; ok {
				return r.fault(v.line, "%s: the file that %s names sets this too; keep one of them", key, sources[0])
			}
		}
	}
	return nil
}
