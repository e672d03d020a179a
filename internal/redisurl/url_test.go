package redisurl

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestCut(t *testing.T) { synctest.Test(t, testCut) } // which waits for goroutines: there are none

func testCut(t *testing.T) {
	for text, want := range map[string]Parts{
		"redis://h":                      {"redis", "", "h", ""},
		"redis://u:p@h,i:1/0?a=b#c":      {"redis", "u:p@", "h,i:1", "/0?a=b#c"},
		"redis://u:p@w@h?a=x@y":          {"redis", "u:p@w@", "h", "?a=x@y"},
		"unix:///run/a@b":                {"unix", "", "", "/run/a@b"},
		"--url=redis+sentinel://@[::1]#": {"--url=redis+sentinel", "@", "[::1]", "#"},
		"://":                            {},
	} {
		if got, ok := Cut(text); got != want || !ok {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, ok, want)
		}
	}
	if got, ok := Cut("redis:/h"); got != (Parts{}) || ok {
		t.Errorf("got %+v, %v of what is no URL", got, ok)
	}
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{ // the hosts, and the path
		"redis://h":                           "h ",
		"Redis://u:p@w@h1:1,h2,[::1]:2/0?a=b": "h1:1,h2,[::1]:2 /0",
		"unix://u:p@/run%40/a@b.sock":         " /run@/a@b.sock",
		"redis://":                            " ",
	} {
		u, hosts, err := Parse(raw)
		if err != nil || hosts+" "+u.Path != want {
			t.Errorf("%s: got %v with the hosts %q and error %v, want %q", raw, u, hosts, err, want)
		}
	}
	for _, raw := range []string{
		"", "redis", "://h", "u:s3cret@redis://h", "/redis://h", "redis:opaque://h", "redis://u:s3/cret@h", "redis://u:9?s3cret@h",
		"redis://u:9#s3cret@h", "redis://u:%zz@h", "unix://run/redis.sock", "unix://u:x@/s3cret@/s",
	} {
		if u, _, err := Parse(raw); !errors.Is(err, ErrBad) {
			t.Errorf("%s: got %v, %v, want a refusal", raw, u, err)
		}
	}
}

func TestHostPort(t *testing.T) {
	for entry, want := range map[string]string{
		"h": "h:6379", "h:1": "h:1", "[::1]": "[::1]:6379", "[::1]:2": "[::1]:2", "[fe80::1%25eth0]": "[fe80::1%eth0]:6379",
		"": "invalid host", ":1": "invalid host", "::1": "invalid host", "\"h\"": "invalid host", "[x]": "invalid host", "a%20b": "taken apart", "h/1": "taken apart",
		"u@h": "taken apart", "h?": "taken apart", "h:0": "between 1 and", "h:65536": "between 1 and",
	} {
		got, err := HostPort(entry, "6379")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", entry, got, want)
		}
	}
}
