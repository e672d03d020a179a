package zkhold

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	id      = "0a96690245b9a443"
	session = int64(0x1000a1b2c3d40001)
)

func TestPaths(t *testing.T) {
	for name, want := range map[string]string{
		"deploy":                  "/deploy",
		"Deploy/a b/é日本":          "/Deploy/a b/é日本",
		"a:b_*?[]'\"\\+{x}":       "/a:b_*?[]'\"\\+{x}",
		"...":                     "/...",
		".":                       "/%2E",
		"a/../b":                  "/a/%2E%2E/b",
		"/a":                      "/%/a",
		"a/":                      "/a/%",
		"a//b":                    "/a/%/b",
		"%":                       "/%25",
		"a%20":                    "/a%2520",
		"a\x00\t\x7f":             "/a%00%09%7F",
		"a\xff":                   "/a%FF",
		"a\uFFFD":                 "/a%EF%BF%BD",
		"a\u0085\ue000\U0001f512": "/a%C2%85%EE%80%80%F0%9F%94%92",
		"a\uf900":                 "/a\uf900",
		"zookeeper":               "/%7Aookeeper",
		"zookeeper/config":        "/%7Aookeeper/config",
		"zookeepers":              "/zookeepers",
		"job/lock-0000000001":     "/job/lock-000000000%31",
		"job/x__lock__0000000012": "/job/x__lock__000000001%32",
		"job/lock-1":              "/job/lock-1",
		"job/block-000000001":     "/job/block-000000001",
	} {
		if got := pathOf("", name); got != want {
			t.Errorf("path of %q: got %q, want %q", name, got, want)
		}
	}
	if got := pathOf("/locks", "zookeeper"); got != "/locks/zookeeper" {
		t.Errorf("path below a root: got %q", got)
	}
}

// Each name follows from its path, so no two names have the same path.
func FuzzPath(f *testing.F) {
	for _, name := range []string{"a", "/", "//", "a/", "%", "%2", "%25", "a%", ".", "..", "./", "\xff", "\x00", "é", "🔒", "lock-0000000001", "zookeeper/"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		path := pathOf("", name)
		for i, e := range strings.Split(path[1:], "/") {
			if e == "" || e == "." || e == ".." {
				t.Fatalf("path of %q: element %d of %q is %q", name, i, path, e)
			}
			if _, _, claim := parse(e); claim {
				t.Fatalf("path of %q: element %d of %q looks like a claim", name, i, path)
			}
		}
		if got, ok := nameOf("", path); !ok || got != name {
			t.Fatalf("path of %q: %q, which reads as %q, %v", name, path, got, ok)
		}
		if got, ok := nameOf("/a/b", pathOf("/a/b", name)); !ok || got != name {
			t.Fatalf("name of the path of %q below a root: %q, %v", name, got, ok)
		}
	})
}

// Nodes with a path that no lock has are those of other programs.
func TestPathsWithoutAName(t *testing.T) {
	for _, path := range []string{"/zookeeper", "/zookeeper/config", "/", "/a/%", "/a%", "/a%2", "/a%zz", "/a%61", "/%2e", "/a%FG", "/a%+1", "/a/lock-0000000001"} {
		if name, ok := nameOf("", path); ok != (path == "/a/%") {
			t.Errorf("name of %q: got %q, %v", path, name, ok)
		}
	}
	if name, ok := nameOf("/locks", "/locks/zookeeper"); !ok || name != "zookeeper" {
		t.Errorf("name below a root: got %q, %v", name, ok)
	}
}

func TestNodes(t *testing.T) {
	const ours = "_c_1000a1b2-c3d4-0001-0a96-690245b9a443-"
	for node, want := range map[string]ordered.Kind{
		ours + "lock-0000000007":     ordered.Mutex,
		ours + "__WRIT__0000000007":  ordered.Writer,
		ours + "__READ__-000000007":  ordered.Reader,
		ours + "lock--2147483648":    ordered.Mutex,
		ours + "__WRIT__02147483647": ordered.Writer,
	} {
		m, _, ok := parse(node)
		kind := m.Kind
		if !ok || kind != want || idOf(sessionPrefix(session), node) != id {
			t.Errorf("parse %q: got %q, %v, claim %q, want %q of ours", node, kind, ok, idOf(sessionPrefix(session), node), want)
		}
		if made := nodeOf(session, ordered.Label{Kind: want, ID: id}); !strings.HasPrefix(node, made) {
			t.Errorf("node of a %q: got %q, want the beginning of %q", want, made, node)
		}
		if got := idOf(sessionPrefix(session+1), node); got != node {
			t.Errorf("%q in another session: got claim %q", node, got)
		}
	}
	for node, want := range map[string]ordered.Kind{
		"_c_9f2e35a4-15ff-4d0b-8d7a-3c1c8c4d6c4b-lock-0000000000": ordered.Mutex,
		"_c_9f2e35a415ff4d0b8d7a3c1c8c4d6c4b-lock-0000000003":     ordered.Mutex, // go-zookeeper
		"lease-0000000012": ordered.Permit,
		"_c_9f2e35a4-15ff-4d0b-8d7a-3c1c8c4d6c4b-lease-0000000000": ordered.Permit,
		"lock-0000000012": ordered.Mutex,
		"9f2e35a415ff4d0b8d7a3c1c8c4d6c4b__lock__0000000003":         ordered.Mutex, // kazoo
		"9f2e35a415ff4d0b8d7a3c1c8c4d6c4b__rlock__0000000003":        ordered.Reader,
		"_c_9f2e35a4-15ff-4d0b-8d7a-3c1c8c4d6c4b-__READ__0000000001": ordered.Reader,
	} {
		if m, _, ok := parse(node); !ok || m.Kind != want || m.Permits != 0 || idOf(sessionPrefix(session), node) != node {
			t.Errorf("parse %q: got %+v, %v, claim %q, want %q of another program", node, m, ok, idOf(sessionPrefix(session), node), want)
		}
	}
	permit := ordered.Label{Kind: ordered.Permit, Permits: 12, ID: id}
	if node := nodeOf(session, permit) + "0000000003"; node != ours+"p12-lease-0000000003" || idOf(sessionPrefix(session), node) != id {
		t.Errorf("node of a permit: got %q", node)
	} else if m, seq, ok := parse(node); !ok || m.Kind != ordered.Permit || m.Permits != 12 || seq != 3 {
		t.Errorf("parse %q: got %+v, %d, %v", node, m, seq, ok)
	}
	for _, node := range []string{"", "lock-", "lock-1", "lock-+000000001", "lock-99999999999", "latch-0000000001", "job", "lock-0000000001x"} {
		if m, seq, ok := parse(node); ok {
			t.Errorf("parse %q: got %+v, %d, want that it is no claim", node, m, seq)
		}
	}
}

func TestTTL(t *testing.T) {
	if got := New(nil, nil).Info(); got.SessionTTL != 30*time.Second || got.MaxTTL != got.SessionTTL {
		t.Errorf("got a session of %v, want 30 s", got.SessionTTL)
	}
	if got := New(nil, &Options{TTL: 5 * time.Second}).Info().SessionTTL; got != 5*time.Second {
		t.Errorf("got a session of %v, want 5 s", got)
	}
}
