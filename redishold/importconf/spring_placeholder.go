package importconf

import (
	"errors"
	"strings"
)

const (
	maxLookups = 10_000  // of one file: placeholders can multiply
	maxExpand  = 1 << 16 // bytes of a value
)

// expandEntry replaces the placeholders in the values of e. What Spring would read
// otherwise than it stands there is refused.
func (r *springReader) expandEntry(e entry) (entry, error) {
	if e.foreign {
		return e, e.fault("write characters outside of ASCII as \\u00e4: Spring does not read this file as UTF-8")
	}
	values := make([]string, len(e.values))
	for i, value := range e.values {
		expanded, err := r.expand(value, 0)
		if err != nil {
			return e, e.fault("%v", err)
		}
		values[i] = expanded
	}
	e.values = values
	return e, nil
}

// expand replaces the placeholders in text, which may contain each other.
func (r *springReader) expand(text string, depth int) (string, error) {
	var b strings.Builder
	for {
		start := strings.Index(text, "${")
		if start < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		if r.left--; r.left < 0 || depth > maxDepth || b.Len() > maxExpand {
			return "", errors.New("its placeholders name each other in a circle, or there are too many")
		}
		if start > 0 && text[start-1] == '\\' {
			b.WriteString(text[:start-1] + "${")
			text = text[start+2:]
			continue
		}
		end := closing(text[start:])
		if end < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:start])
		value, err := r.lookUp(text[start+2:start+end], depth)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = text[start+end+1:]
	}
}

// closing returns where the brace is that closes the placeholder which text begins
// with, or -1.
func closing(text string) int {
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// lookUp returns the value of what stands between the braces.
func (r *springReader) lookUp(inner string, depth int) (string, error) {
	name, fallback, hasFallback := inner, "", false
	if !strings.Contains(inner, "${") || strings.Index(inner, ":") < strings.Index(inner, "${") {
		name, fallback, hasFallback = strings.Cut(inner, ":")
	}
	name, err := r.expand(name, depth+1)
	if err != nil {
		return "", err
	}
	if r.env != nil {
		for _, spelling := range []string{name, variable(name)} {
			if value, ok := r.env(spelling); ok {
				return value, nil
			}
		}
	}
	if e, ok := r.keys[canonical(name)]; ok && len(e.values) == 1 {
		return r.expand(e.values[0], depth+1)
	}
	if !hasFallback {
		return "", errUnset
	}
	return r.expand(fallback, depth+1)
}

// variable returns the name of the environment variable that Spring takes for a
// property.
func variable(name string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "", "[", "_", "]", "").Replace(name))
}
