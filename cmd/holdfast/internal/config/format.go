package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format returns a file in which keys such as "lock.ttl" have these values. A value is as it
// is written in a file: ${NAME} is a variable.
func Format(values map[string]string) ([]byte, error) {
	root := map[string]any{}
	for key, value := range values {
		section := root
		words := strings.Split(key, ".")
		for _, word := range words[:len(words)-1] {
			inner, ok := section[word].(map[string]any)
			if !ok {
				inner = map[string]any{}
				section[word] = inner
			}
			section = inner
		}
		section[words[len(words)-1]] = value
	}
	return yaml.Marshal(root)
}
