package importconf_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// seed adds the files of a folder in testdata.
func seed(f *testing.F, folder string, add func(name string, text []byte)) {
	names, err := filepath.Glob(filepath.Join("testdata", folder, "*"))
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		add(filepath.Base(name), text)
	}
}

func FuzzRedisson(f *testing.F) {
	seed(f, "redisson", func(_ string, text []byte) { f.Add(string(text)) })
	f.Fuzz(func(t *testing.T, text string) {
		sound(t, func(password string) (*importconf.Settings, error) {
			return importconf.Redisson([]byte("password: \""+password+"\"\n"+text), environment)
		})
	})
}

func FuzzSpringYAML(f *testing.F) {
	seed(f, "spring", func(name string, text []byte) {
		if filepath.Ext(name) == ".yaml" {
			f.Add(string(text))
		}
	})
	f.Fuzz(func(t *testing.T, text string) {
		sound(t, func(password string) (*importconf.Settings, error) {
			return importconf.Spring([]byte("spring.redis.password: \""+password+"\"\n"+text), "a.yaml", environment)
		})
	})
}

func FuzzSpringProperties(f *testing.F) {
	seed(f, "spring", func(name string, text []byte) {
		if filepath.Ext(name) == ".properties" {
			f.Add(string(text))
		}
	})
	f.Fuzz(func(t *testing.T, text string) {
		sound(t, func(password string) (*importconf.Settings, error) {
			return importconf.Spring([]byte("spring.redis.password="+password+"\n"+text), "a.properties", environment)
		})
	})
}

// sound reads one file with two passwords. Neither errors nor what is printed may
// differ, unless the file makes more of its password than one.
func sound(t *testing.T, read func(password string) (*importconf.Settings, error)) {
	const one, other = "aaaa-swordfish", "bbbb-swordfish"
	first, err := read(one)
	second, err2 := read(other)
	if text := errorText(err); text != strings.ReplaceAll(errorText(err2), other, one) || strings.Contains(text, one) {
		t.Fatalf("the password is part of the error %q", text)
	}
	if err != nil {
		if first != nil {
			t.Fatal("settings besides an error")
		}
		return
	}
	if (first.URL == "") == (len(first.Nodes) == 0) {
		t.Fatalf("got URL %q and nodes %q, want one of them", first.URL, first.Nodes)
	}
	for _, i := range append(first.Ignored, second.Ignored...) {
		if i.Line < 1 || i.Key == "" || i.Why == "" {
			t.Fatalf("incomplete: %+v", i)
		}
	}
	for _, raw := range append(first.Nodes, first.URL) {
		hosts, _, found := strings.Cut(strings.TrimPrefix(raw, "unix://"), ",") // url.Parse takes no lists
		if u, err := url.Parse(hosts); err != nil && !found || u != nil && u.User != nil {
			t.Fatalf("got URL %q: %v", raw, err)
		}
	}
	if first.Password != one || second.Password != other || first.ClientName != second.ClientName || first.URL != second.URL {
		return // the password of the file is another, or it is used elsewhere too
	}
	if first.SentinelPassword == second.SentinelPassword && first.Username == second.Username && first.String() != second.String() {
		t.Fatalf("%s shows the password", first)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
