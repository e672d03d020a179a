package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Each limit is named by status 64 on its far side, and keeps nobody out on the near one.
func TestLimits(t *testing.T) {
	s := newSite(t)
	for line, want := range map[string]string{
		"run -n -t 87600h job true":                                              "",
		"run -n -t 87601h job true":                                              "--ttl 87601h0m0s is too long for redis; use at most 87600h0m0s",
		"run -n -t 876001h job true":                                             "--ttl 876001h0m0s is too long; use at most 876000h0m0s",
		"run -n -t 2540400h job true":                                            "--ttl 2540400h0m0s is too long; use at most 876000h0m0s",
		"run -n -t 100ms --kill-after 1ms job true":                              "",
		"run -n -t 99ms job true":                                                "--ttl 99ms is too short; use at least 100ms",
		"run -w 2540400h job true":                                               "",
		"run -w -1ns job true":                                                   "--wait -1ns is negative",
		"run -n --permits 2147483647 most true":                                  "",
		"run -n --permits 2147483648 more true":                                  "--permits 2147483648 is too large; use at most 2147483647",
		"run -n --permits 9007199254740993 more true":                            "use at most 2147483647",
		"hold -n --permits 9223372036854775807 more":                             "use at most 2147483647",
		"run -n --permits 0 none true":                                           "use 1 or more",
		"resize most 2147483648":                                                 "use 1 to 2147483647",
		"resize most 0":                                                          "use 1 to 2147483647",
		"run -n -u redis://a:1 -u redis://b:1 -u redis://c:1 -t 87601h job true": "is too long for",
	} {
		got := s.run(strings.Fields(line)...)
		if want == "" {
			got.want(t, 0)
		} else {
			got.want(t, output.ExitUsage, want)
		}
		if strings.Contains(got.stderr, "less than -") {
			t.Errorf("%s: got %q, a negative duration", line, got.stderr)
		}
	}
}

// The limit of a store for names is seen before anything is sent: a server that is not
// there ends with status 69.
func TestLongNames(t *testing.T) {
	s := newSite(t)
	for url, limit := range map[string]int{
		"etcd://127.0.0.1:1": 4096, "zk://127.0.0.1:1": 4096, "postgres://127.0.0.1:1/x": 512, "mysql://127.0.0.1:1/x": 512,
	} {
		for _, command := range []string{"run -n NAME true", "inspect NAME", "status NAME", "force-unlock --reason r --yes --token 1 NAME"} {
			with := func(n int) result {
				words := strings.Fields(strings.Replace(command, "NAME", strings.Repeat("n", n), 1))
				return s.run(append([]string{words[0], "-u", url}, words[1:]...)...)
			}
			with(limit).want(t, output.ExitUnreachable, "cannot connect")
			with(limit+1).want(t, output.ExitUsage, fmt.Sprintf(`the name "nnnnnnnnnnnnnnnnnnnn"… has %d bytes`, limit+1), fmt.Sprint("takes at most ", limit))
		}
	}
}
