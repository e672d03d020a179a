package main

import (
	"strings"
	"testing"
)

func TestSecretsInArguments(t *testing.T) {
	for arg, want := range map[string]string{
		"redis://app:s3cret@h:1/0":                    "redis://app:***@h:1/0",
		"--url=redis://:s3cret@h":                     "--url=redis://:***@h",
		"redis://app@h":                               "redis://app@h",
		"redis://h:6379":                              "redis://h:6379",
		"redis://app:s3/cr@et@h/1":                    "redis://app:***@h/1",
		"redis+sentinel://a:s3cret@h,i/m?x=1":         "redis+sentinel://a:***@h,i/m?x=1",
		"redis+sentinel://h/m?sentinel_password=s3&x": "redis+sentinel://h/m?sentinel_password=***&x",
		"postgres://u:p@h and more":                   "postgres://u:***@h and more",
		"no url: a:b@c":                               "no url: a:b@c",
		"://":                                         "://",
		"":                                            "",
	} {
		var got strings.Builder
		last := 0
		for _, s := range secretsIn(arg) {
			got.WriteString(arg[last:s.from] + "***")
			last = s.to
		}
		got.WriteString(arg[last:])
		if got.String() != want {
			t.Errorf("%s: got %s, want %s", arg, got.String(), want)
		}
	}
}
