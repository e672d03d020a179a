package importconf

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Redisson reads a configuration of Redisson 3 or 4, as Config.fromYAML does, or
// the JSON of older ones. Placeholders, ${NAME} and ${NAME:-default}, are replaced
// as there: in the text, before it is taken apart. env returns the value of an
// environment variable and whether it is set; it may know the system properties
// of the Java program too. nil knows none.
//
// It is an error if there are none or several servers' configurations, no address,
// a key twice, a placeholder that is not set, a value that is none for its key, or
// certificates in a form that cannot be read here.
func Redisson(file []byte, env func(name string) (string, bool)) (*Settings, error) {
	s, err := redisson(string(file), env)
	if err != nil {
		return nil, fmt.Errorf("configuration of Redisson: %w", err)
	}
	return s.finish(), nil
}

func redisson(text string, env func(string) (string, bool)) (*Settings, error) {
	text, unset, err := fillIn(text, env)
	if err != nil {
		return nil, err
	}
	roots, err := documents([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case len(roots) == 0:
		return nil, errors.New("the file is empty")
	case len(roots) > 1:
		return nil, fmt.Errorf("line %d: a second document begins; Redisson reads one", roots[1].Line)
	}
	r := redissonReader{given: make(given), unset: unset}
	if err := r.read(roots[0]); err != nil {
		return nil, err
	}
	if err := r.build(); err != nil {
		return nil, err
	}
	return &r.settings, nil
}

// fillIn replaces placeholders as Redisson does. Those that are not set stay, and
// are returned: in a comment they do not matter.
func fillIn(text string, env func(string) (string, bool)) (filled string, unset []string, err error) {
	placeholder := regexp.MustCompile(`\$\{([\w.]+)(:-.+?)?\}`)
	filled = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		value := strings.TrimPrefix(parts[2], ":-")
		ok := value != "" && !strings.Contains(value, ":-") // which Redisson takes for no default
		if env != nil {
			if own, set := env(parts[1]); set {
				value, ok = own, true
			}
		}
		switch {
		case !ok:
			unset = append(unset, found)
			return found
		case strings.ContainsAny(value, "\r\n"):
			err = fmt.Errorf("the value of %s has a line break", shown(parts[1]))
		}
		return value
	})
	// What looks like a placeholder and is none, Redisson leaves as it is.
	for _, found := range regexp.MustCompile(`\$\{[^}\n]*\}`).FindAllString(text, -1) {
		if placeholder.FindString(found) != found {
			unset = append(unset, found)
		}
	}
	return filled, unset, err
}

type redissonReader struct {
	settings Settings
	given    given
	unset    []string // placeholders without a value
	section  string   // the key of the servers' configuration
	servedBy entry    // the same
}

// read sorts the keys: those of use, those that are not, and those that do not
// exist.
func (r *redissonReader) read(root *yaml.Node) error {
	top, err := pairs(target(root), "")
	if err != nil {
		return err
	}
	var servers pair
	for _, p := range top {
		switch {
		case empty(p.value):
		case !slices.Contains(sections(), p.key):
			if err := r.sort(p, ""); err != nil {
				return err
			}
		case r.section != "":
			return fmt.Errorf("line %d: %s: line %d has %s already; a client has one of them", p.line, p.key, servers.line, servers.key)
		default:
			r.section, servers = p.key, p
			r.servedBy = p.entryOf("")
		}
	}
	if r.section == "" {
		return fmt.Errorf("no servers are configured: one of %s is expected", strings.Join(sections(), ", "))
	}
	in := r.section + "."
	within, err := pairs(servers.value, in)
	if err != nil {
		return err
	}
	for _, p := range within {
		if !empty(p.value) {
			if err := r.sort(p, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *redissonReader) sort(p pair, in string) error {
	e := p.entryOf(in)
	section := strings.TrimSuffix(in, ".")
	if redissonUses(section, p.key) {
		for _, value := range e.values {
			if slices.ContainsFunc(r.unset, func(u string) bool { return strings.Contains(value, u) }) {
				return e.fault("a placeholder is not set and has no default")
			}
		}
		if outer, twice := r.given[p.key]; twice {
			r.ignore(outer.ignored("line " + fmt.Sprint(e.line) + " says it for the servers"))
		}
		r.given[p.key] = e
		return nil
	}
	why, serious := redissonIgnores(section, p)
	if why == "" {
		if strings.HasPrefix(strings.ToLower(p.key), "ssl") {
			return e.fault("there is no such key here in Redisson 3.17 to 4.7; nothing that begins with ssl is passed over")
		}
		why, serious = misplaced(section, p.key), true
	}
	i := e.ignored(why)
	i.Serious = serious
	r.ignore(i)
	return nil
}

func (r *redissonReader) ignore(i Ignored) { r.settings.Ignored = append(r.settings.Ignored, i) }

// className returns the Java class that a value is of, or "".
func className(n *yaml.Node) string {
	if class := strings.TrimLeft(n.Tag, "!"); strings.Contains(class, ".") {
		return class
	}
	if n.Kind == yaml.MappingNode { // JSON: {"class": "…"}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i].Value; key == "class" || key == "@class" {
				return target(n.Content[i+1]).Value
			}
		}
	}
	return ""
}
