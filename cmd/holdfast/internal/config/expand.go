package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// expand replaces ${NAME} and ${NAME:-default} by what the environment has; a
// variable that is empty counts as unset, and one that is unset needs a default.
// $$ is a dollar. It happens after YAML was read, so that a value cannot become
// anything else than a value.
//
// In the user and the password of a URL the value is encoded, and so it is in the
// value of a parameter: a password may have any characters there.
func (r *reader) expand(n *yaml.Node, isURL bool) (string, error) {
	from, to := 0, 0 // where the user and the password are
	if isURL {
		from, to = userinfo(n.Value)
	}
	var (
		out    strings.Builder
		failed error
		last   int
	)
	pattern := regexp.MustCompile(`\$\$|\$\{([^}:]*)(:-([^}]*))?\}|\$\{`)
	for _, at := range pattern.FindAllStringSubmatchIndex(n.Value, -1) {
		out.WriteString(n.Value[last:at[0]])
		last = at[1]
		if n.Value[at[0]:at[1]] == "$$" {
			out.WriteByte('$')
			continue
		}
		value, err := r.variable(n.Value, at)
		if err != nil && failed == nil {
			failed = err
		}
		if at[0] >= from && at[1] <= to || isURL && inParameter(n.Value, at[0]) {
			value = url.QueryEscape(value)
			value = strings.ReplaceAll(value, "+", "%20")
		}
		out.WriteString(value)
	}
	out.WriteString(n.Value[last:])
	return out.String(), failed
}

// variable returns the value of the variable that at found in text.
func (r *reader) variable(text string, at []int) (string, error) {
	if r.file.found {
		return "", errors.New("there is a ${...}; " + nameIt + ", and $$ is a dollar")
	}
	if at[2] < 0 {
		return "", fmt.Errorf("there is a ${ without its }; write $$ for a dollar")
	}
	name := text[at[2]:at[3]]
	if !regexp.MustCompile(`^[A-Za-z_]\w*$`).MatchString(name) {
		return "", fmt.Errorf("there is a ${...} that names no variable; write $$ for a dollar")
	}
	if value, ok := r.env(name); ok && value != "" {
		return value, nil
	}
	if at[4] >= 0 {
		return text[at[6]:at[7]], nil
	}
	return "", fmt.Errorf("the variable %s is not set; ${%s:-...} gives it a default", name, name)
}

// userinfo returns where the user and the password of a URL are.
func userinfo(text string) (from, to int) {
	p, _ := redisurl.Cut(mask(text))
	from = len(p.Scheme) + len("://")
	return from, from + max(0, len(p.Login)-len("@"))
}

// inParameter reports whether text at that place belongs to the value of one of a
// URL's parameters.
func inParameter(text string, place int) bool {
	_, query, ok := strings.Cut(mask(text)[:place], "?")
	return ok && strings.LastIndexByte(query, '=') > strings.LastIndexByte(query, '&')
}

// mask hides what stands in braces, such as a default with a slash.
func mask(text string) string {
	return regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("x", len(s)) })
}
