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

// expand replaces ${NAME} and ${NAME:-default} with the value of the variable. A variable
// that is empty counts as unset. A variable that is unset needs a default. $$ becomes a
// dollar. expand runs after the YAML parser, so a value cannot add keys.
//
// In the user, in the password and in the value of a parameter of a URL, the value is
// encoded, because a password may have any characters.
func (r *reader) expand(n *yaml.Node, isURL bool) (string, error) {
	from, to := 0, 0 // the positions of the user and the password
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

// variable returns the value of the variable in text. at has the positions of the match, as
// regexp returns them.
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

// userinfo returns the positions at which the user and the password of a URL begin and end.
func userinfo(text string) (from, to int) {
	p, _ := redisurl.Cut(mask(text))
	from = len(p.Scheme) + len("://")
	return from, from + max(0, len(p.Login)-len("@"))
}

// inParameter reports whether the position place of text is in the value of a parameter of
// the URL.
func inParameter(text string, place int) bool {
	_, query, ok := strings.Cut(mask(text)[:place], "?")
	return ok && strings.LastIndexByte(query, '=') > strings.LastIndexByte(query, '&')
}

// mask replaces each ${...} with letters of the same length, because a default may have a
// slash or another special character.
func mask(text string) string {
	return regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("x", len(s)) })
}
