package pages

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Pages of tests are in a folder that has a go.work, as the root of the repository.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	files["go.work"] = ""
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("below", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("below")
}

// recorder is a test that records its failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) + "\n" }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// failure returns what a function reports to the test that it is given.
func failure(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(r) {
				panic(v)
			}
		}()
		f(r)
	}()
	return r.said
}

func TestOf(t *testing.T) {
	write(t, map[string]string{"p.md": "# P\n\n```go\na := 1\n\nb := 2\n```\n\ntext ``` text\n\n```\nx\n```\n"})
	want := []Block{{"go", "a := 1\n\nb := 2\n"}, {"", "x\n"}}
	if got := Of(t, "p.md"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOfRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"# P\n":                         "has no code",
		"```go\n```\n":                  "is empty",
		"```go\nx\n```\n- a\n  ```sh\n": "fences",
		"```go\nx\n```\n```sh\nmake\n":  "fences",
	} {
		write(t, map[string]string{"p.md": text})
		if got := failure(t, func(t testing.TB) { Of(t, "p.md") }); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	const file = "package p\n\nfunc f() {\n\ta := 1\n\n\tif a > 0 {\n\t\tg()\n\t}\n}\n"
	for block, want := range map[string]string{
		file:                        "",
		"func f() {\n\ta := 1\n":    "",
		"a := 1\n\nif a > 0 {\n":    "",
		"func g() {}\n":             "", // of the second file
		"if a > 0 {\n\t\tg()\n":     "no file",
		":= 1\n":                    "no file",
		"a := 1\nif a > 0 {\n":      "no file",
		"a := 1\n```\n\n```go\nb\n": "this block:\nb",
	} {
		write(t, map[string]string{"p.md": "```sh\nmake\n```\n\n```go\n" + block + "```\n", "a.go": file, "b.go": "func g() {}\n"})
		got := failure(t, func(t testing.TB) { Within(t, "p.md", "go", "a.go", "b.go") })
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", block, got, want)
		}
		if got := failure(t, func(t testing.TB) { Within(t, "p.md", "java", "a.go") }); !strings.Contains(got, `the language "java"`) {
			t.Errorf("no block: got %q", got)
		}
	}
}

func TestFirst(t *testing.T) {
	write(t, map[string]string{"p.md": "# P\n\n```sh\nx\n```\n\n```go\na\n```\n\n```go\nb\n```\n"})
	if got := First(t, "p.md", "go"); got != "a\n" {
		t.Errorf("got %q, want the first of two", got)
	}
	if got := failure(t, func(t testing.TB) { First(t, "p.md", "lua") }); !strings.Contains(got, "no block") {
		t.Errorf("without a block: got %q", got)
	}
}
