package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format returns the text of a configuration file in which keys such as "lock.ttl" have these
// values. In a value ${NAME} is a variable, as in any file.
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
