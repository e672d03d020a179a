package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func environment(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

func TestParse(t *testing.T) {
	env := environment(map[string]string{"USER": "a@b", "SECRET": "p/w d%", "HOST": "h:1", "EMPTY": ""})
	f, err := parse("/etc/holdfast/holdfast.yaml", []byte(`
url: redis://${USER}:${SECRET}@${HOST}/${EMPTY:-2}
prefix: "$$x${EMPTY:-}:"
redis:
  password_file: secret
  tls: {ca: /pki/ca.pem}
  layout:
lock: {ttl: 1m30s, fair: true}
serve:
redis.tls.server_name: n
`), env)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"url": "redis://a%40b:p%2Fw%20d%25@h:1/2", "prefix": "$x:",
		"redis.password_file": "/etc/holdfast/secret", "redis.tls.ca": "/pki/ca.pem",
		"lock.ttl": "1m30s", "lock.fair": "true", "redis.tls.server_name": "n",
	}
	for _, key := range slices.Sorted(maps.Keys(keys())) {
		got, ok := f.Lookup(key)
		if _, given := want[key]; got != want[key] || ok != given {
			t.Errorf("%s: got %q, %v, want %q, %v", key, got, ok, want[key], given)
		}
	}
	if got := f.Duration("lock.ttl"); got != 90*time.Second {
		t.Errorf("got %v, want 90s", got)
	}
	if got, want := f.Where("lock.fair"), "/etc/holdfast/holdfast.yaml, line 8: lock.fair"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseList(t *testing.T) {
	env := environment(map[string]string{"USER": "a@b", "HOST": "h:1"})
	f, err := parse("x", []byte("redlock:\n- &first redis://${USER}@${HOST}\n- *first\n- redis://other\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.List("redlock"), []string{"redis://a%40b@h:1", "redis://a%40b@h:1", "redis://other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, content := range []string{"redlock: one", "redlock: []", "redlock: [[a]]", "redlock: [a, {b: c}]", "redlock: [&a [b], *a]"} {
		if _, err := parse("x", []byte(content), env); err == nil {
			t.Errorf("%q: got nil, want an error", content)
		}
	}
}

// Where a flag takes commas, so does the file; in a list, a comma is part of a value.
func TestParseSeveral(t *testing.T) {
	env := environment(map[string]string{"WHO": "a?b=c&d"})
	for content, want := range map[string][]string{
		"ada":                          {"ada"},
		"ada, grace ,":                 {"ada", "grace"},
		"[ada, 'hopper, grace']":       {"ada", "hopper, grace"},
		"[ada, '${WHO}']":              {"ada", "a?b=c&d"},
		"'${WHO}'":                     {"a?b=c&d"},
		"['x?y=${WHO}']":               {"x?y=a?b=c&d"},
		"\n  - &first ada\n  - *first": {"ada", "ada"},
	} {
		f, err := parse("x", []byte("serve:\n operators: "+content+"\n"), env)
		if got := f.List("serve.operators"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", content, got, err, want)
		}
	}
	for _, content := range []string{"{a: b}", "[]", "[[a]]", "[{a: b}]"} {
		if _, err := parse("x", []byte("serve:\n operators: "+content+"\n"), env); err == nil {
			t.Errorf("%q: got nil, want an error", content)
		}
	}
}

func TestNoFile(t *testing.T) {
	var f File
	if text, ok := f.Lookup("url"); text != "" || ok || f.Name != "" || f.Duration("lock.ttl") != 0 {
		t.Errorf("got %q, %v, %q", text, ok, f.Name)
	}
	for _, content := range []string{"", "# nothing\n", "---\n", "null\n"} {
		if f, err := parse("x", []byte(content), environment(nil)); err != nil || len(f.values) != 0 {
			t.Errorf("%q: got %v, %v", content, f, err)
		}
	}
}

func TestUserinfo(t *testing.T) {
	for text, want := range map[string]string{
		"redis://u:p@h":               "u:p",
		"redis://h/x@y":               "",
		"redis://u:${A:-x/y}@h/1":     "u:${A:-x/y}",
		"${STORE}":                    "",
		"unix://":                     "",
		"redis://a@b@h?addr=x@y":      "a@b",
		"redis+sentinel://u:p@a,b/m":  "u:p",
		"unix:///run/s?db=${DB}@":     "",
		"redis://${USER}:${P}@${H}/0": "${USER}:${P}",
	} {
		from, to := userinfo(mask(text))
		if got := text[from:to]; got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// What a password has in it can end neither a parameter nor the URL.
func TestParameterIsEncoded(t *testing.T) {
	env := environment(map[string]string{"P": "a&b+c#d=e?f g%", "URL": "redis://h?db=1&x=y", "Q": "db=1&x=y"})
	for text, want := range map[string]string{
		"redis+sentinel://h/m?db=1&sentinel_password=${P}": "redis+sentinel://h/m?db=1&sentinel_password=a%26b%2Bc%23d%3De%3Ff%20g%25",
		"redis://h?a=x${P}${P:-}&db=1":                     "redis://h?a=xa%26b%2Bc%23d%3De%3Ff%20g%25a%26b%2Bc%23d%3De%3Ff%20g%25&db=1",
		"redis://h?a=${NONE:-?&}&b=2":                      "redis://h?a=%3F%26&b=2",
		"${URL}":                                           "redis://h?db=1&x=y",
		"redis://h?${Q}":                                   "redis://h?db=1&x=y",
		"redis://h?a=1&${Q}":                               "redis://h?a=1&db=1&x=y",
		"unix:///a=${Q}":                                   "unix:///a=db=1&x=y",
	} {
		f, err := parse("f", []byte("url: '"+text+"'\n"), env)
		if err != nil || f.Text("url") != want {
			t.Errorf("%s: got %q, %v, want %q", text, f.Text("url"), err, want)
		}
	}
	if f, err := parse("f", []byte("prefix: '?a=${P}'"), env); err != nil || f.Text("prefix") != "?a=a&b+c#d=e?f g%" {
		t.Errorf("got %q, %v, want what is no URL as it is", f.Text("prefix"), err)
	}
}

// Whatever a file says, reading it ends, and an error shows nothing of a value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"url: redis://u:${V}@h\nlock: {ttl: 3s}", "lock: &a {ttl: *a}", "redis: {tls: {ca: x}}", "? [a]: b", "${V}: ${V}",
		"url: |\n  ${V}\n", "lock:\n  ttl: ${V}\n", "- a", "\xff: \x00", "url: *a", "redis.password: x",
	} {
		f.Add(seed)
	}
	const secret = "zqsecretqz"
	f.Fuzz(func(t *testing.T, content string) {
		if strings.Contains(content, secret) {
			return
		}
		file, err := parse("f", []byte(content), environment(map[string]string{"V": secret}))
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows a value: %v", content, err)
			}
			return
		}
		for key, v := range file.values {
			if _, known := keys()[key]; !known || v.line < 1 {
				t.Errorf("%q: got key %q of line %d", content, key, v.line)
			}
		}
	})
}

// A read that takes long is reported once, with the name of the file.
func TestSlowFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for took, want := range []int{0, 0, 0, 1, 1} {
		synctest.Test(t, func(t *testing.T) {
			open := func(name string) (*os.File, error) {
				time.Sleep(time.Duration(took)*time.Second - time.Millisecond)
				return os.Open(name)
			}
			var reported []string
			text, err := readFile(open, name, false, func(name string) { reported = append(reported, name) })
			time.Sleep(time.Minute)
			synctest.Wait()
			if err != nil || string(text) != "text" || len(reported) != want || want > 0 && reported[0] != name {
				t.Errorf("after %ds: got %q, error %v and reports %q, want %d", took, text, err, reported, want)
			}
		})
	}
}

// A file that a found configuration names is in its folder, also behind a link, and is
// bounded like others.
func TestReadLocal(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "ca.pem")
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"ca.pem": "a certificate", "long.pem": strings.Repeat("x", maxFile+1), outside: "elsewhere"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, "link.pem"); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadLocal("ca.pem"); err != nil || string(text) != "a certificate" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := ReadLocal("long.pem"); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v, want that it is too long", err)
	}
	for _, name := range []string{"link.pem", outside} {
		if text, err := ReadLocal(name); err == nil {
			t.Errorf("%s: got %q, want that it is not read", name, text)
		}
	}
}
