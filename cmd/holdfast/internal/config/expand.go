package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// expand replaces ${NAME} and ${NAME:-default} with the value of the variable. A variable
// that is empty counts as unset. A variable that is unset needs a default. $$ becomes a
// dollar. expand runs after the YAML parser, so a value cannot add keys.
//
// In a URL, the value of a variable is encoded if it is in the user, in the password or in the
// value of a parameter, because a password may have any characters.
func (r *reader) expand(text string, isURL bool) (string, error) {
	var out strings.Builder
	rest := text
	pattern := regexp.MustCompile(`\$\$|\$\{([A-Za-z_]\w*)(:-([^}]*))?\}|\$\{`)
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		before, after, _ := strings.Cut(rest, match[0])
		at := len(text) - len(rest) + len(before)
		rest = after
		value, err := r.variable(match)
		if err != nil {
			return "", err
		}
		if isURL && needsEncoding(text, at) {
			value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
		out.WriteString(before + value)
	}
	return out.String() + rest, nil
}

// variable returns the value of a variable, or a dollar for $$. `match` has the text that expand
// found, the name of the variable, the default with the :- before it, and the default alone.
func (r *reader) variable(match []string) (string, error) {
	name := match[1]
	switch {
	case match[0] == "$$":
		return "$", nil
	case r.file.Found:
		return "", errors.New("the value has a ${...}; " + nameIt + "; write $$ for a dollar")
	case name == "":
		return "", errors.New("the value has a ${ without a }, or a ${...} that names no variable; write $$ for a dollar")
	}
	if value, ok := r.env(name); ok && value != "" {
		return value, nil
	}
	if match[2] == "" {
		return "", fmt.Errorf("the variable %s is not set; ${%s:-...} gives it a default", name, name)
	}
	return match[3], nil
}

// needsEncoding reports whether the index `at` of the URL `text` is in the user, in the password
// or in the value of a parameter.
func needsEncoding(text string, at int) bool {
	masked := mask(text)
	if from, to := userinfo(masked); at >= from && at < to {
		return true
	}
	_, query, ok := strings.Cut(masked[:at], "?")
	return ok && strings.LastIndexByte(query, '=') > strings.LastIndexByte(query, '&')
}

// userinfo returns the positions at which the user and the password of a URL begin and end.
func userinfo(masked string) (from, to int) {
	p, _ := redisurl.Cut(masked)
	from = len(p.Scheme) + len("://")
	return from, from + max(0, len(p.Login)-len("@"))
}

// mask replaces each ${...} with letters of the same length, so that a special character in a
// default, such as a slash, does not count as a part of the URL.
func mask(text string) string {
	return regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("x", len(s)) })
}
