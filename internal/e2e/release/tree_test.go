package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for key, value := range map[string]string{"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull, "GOFLAGS": "-modcacherw", "GOPROXY": "off"} {
		if err := os.Setenv(key, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// prefix is the module path of the trees of tests.
const prefix = "github.com/holdfast-go/fake"

// files is a workspace of five modules: the root, a store, a command, an example and one that
// is not published.
func files() map[string]string {
	gomod := func(dir string, requires ...string) string {
		text := "module " + filepath.Join(prefix, dir) + "\n\ngo 1.25.0\n"
		for _, r := range requires {
			text += "\nrequire " + filepath.Join(prefix, r) + " v0.0.0\n"
		}
		return text
	}
	program := func(imports ...string) string {
		text := "package main\n\n"
		for _, i := range imports {
			text += "import _ \"" + filepath.Join(prefix, i) + "\"\n"
		}
		return text + "\nfunc main() {}\n"
	}
	return map[string]string{
		"go.mod": gomod(""), "lib.go": "package lib\n", "LICENSE": "as you like\n",
		"store/go.mod": gomod("store", ""), "store/store.go": "package store\n\nimport _ \"" + prefix + "\"\n",
		"cmd/tool/go.mod": gomod("cmd/tool", "store", ""), "cmd/tool/main.go": program("store", ""),
		"cmd/tool/LICENSE": "its own\n",
		"bench/go.mod":     gomod("bench", "", "store"), "bench/main.go": program("", "store"),
		"examples/buy/go.mod": gomod("examples/buy", "", "store"), "examples/buy/main.go": program("", "store"),
		// a module that is not in the workspace
		"internal/hosts/go.mod": gomod("internal/hosts", "", "bench") + "\nreplace " + prefix + " => ../..\n",
		"go.work": "go 1.25.0\n\nuse (\n\t./cmd/tool\n\t.\n\t./store\n\t./bench\n\t./examples/buy\n)\n\nreplace (\n\t" +
			prefix + " v0.0.0 => ./\n\t" + prefix + "/store v0.0.0 => ./store\n\t" + prefix + "/bench v0.0.0 => ./bench\n)\n",
		"CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- A line.\n",
		beforeFile:     "0123456789\n",
	}
}

// tagsOf returns the tags that a version of the files has, in their order.
func tagsOf(version string) []string {
	return []string{version, "store/" + version, "cmd/tool/" + version}
}

// newTree commits files to a new repository.
func newTree(t *testing.T, content map[string]string) repo {
	t.Helper()
	r := repo{t.TempDir()}
	for name, text := range content {
		write(t, r, name, text)
	}
	mustGit(t, r, "init", "-q", "-b", mainBranch)
	mustGit(t, r, "config", "user.name", "Test")
	mustGit(t, r, "config", "user.email", "test@example.com")
	commit(t, r, "A beginning")
	return r
}

func commit(t *testing.T, r repo, subject string) {
	t.Helper()
	mustGit(t, r, "add", "-A")
	mustGit(t, r, "commit", "-q", "-m", subject)
}

func mustGit(t *testing.T, r repo, args ...string) string {
	t.Helper()
	out, err := r.git(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, r repo, name, text string) {
	t.Helper()
	name = filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, r repo, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// with returns the files with one changed.
func with(name string, change func(string) string) map[string]string {
	all := files()
	all[name] = change(all[name])
	return all
}

func TestTreesThatCannotBePublished(t *testing.T) {
	t.Parallel()
	for want, content := range map[string]map[string]string{
		"not published":  with("store/go.mod", func(s string) string { return s + "\nrequire " + prefix + "/bench v0.0.0\n" }),
		"by way":         with("go.mod", func(s string) string { return s + "\nrequire " + prefix + "/store v0.0.0\n" }),
		"no module line": with("store/go.mod", func(string) string { return "go 1.25.0\n" }),
		"go.mod":         with("go.work", func(s string) string { return strings.Replace(s, "./store\n", "./missing\n", 1) }),
	} {
		if _, err := readTree(newTree(t, content).dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// The order of a map must not reach go.sum.
func TestSumsAreSorted(t *testing.T) {
	t.Parallel()
	r := newTree(t, files())
	if err := (proxy{t.TempDir()}).publish(t.Context(), r, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	first := map[string]string{}
	for _, name := range []string{"store/go.sum", "cmd/tool/go.sum"} {
		first[name] = read(t, r, name)
	}
	if n := strings.Count(first["cmd/tool/go.sum"], "\n"); n != 4 {
		t.Errorf("the command's go.sum has %d lines, want 4:\n%s", n, first["cmd/tool/go.sum"])
	}
	for range 5 {
		if err := (proxy{t.TempDir()}).publish(t.Context(), r, "v0.1.0"); err != nil {
			t.Fatal(err)
		}
		for name := range maps.Keys(first) {
			if got := read(t, r, name); got != first[name] {
				t.Fatalf("%s changed:\n%s\nafter\n%s", name, got, first[name])
			}
		}
	}
}
