package redistest

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ScriptSource returns the text of one of package redishold's scripts as servers are sent it:
// with the shared functions that its header names, each before the first paragraph that calls
// it, and with those that they use.
func ScriptSource(t testing.TB, name string) string {
	t.Helper()
	header, body, _ := strings.Cut(scriptFile(t, name), "\n\n")
	used, added, text := uses(header), map[string]bool{}, header
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		text += "\n\n"
		if paragraph[0] != ' ' { // it is not inside a function
			text += shared(t, used, added, paragraph)
		}
		text += paragraph
	}
	return text
}

// uses returns the names in the line "Uses" of a header.
func uses(header string) []string {
	_, used, found := strings.Cut(header, "\n-- Uses   ")
	if !found {
		return nil
	}
	used, _, _ = strings.Cut(used, "\n")
	return strings.Split(used, ", ")
}

// shared returns the functions that the paragraph calls and that were not added yet.
func shared(t testing.TB, names []string, added map[string]bool, paragraph string) (text string) {
	t.Helper()
	for _, name := range names {
		if !added[name] && strings.Contains(paragraph, name+"(") {
			added[name] = true
			function := scriptFile(t, "shared/"+name)
			header, _, _ := strings.Cut(function, "\n\n")
			text += shared(t, uses(header), added, function) + function + "\n"
		}
	}
	return text
}

// ScriptNames returns the names of all scripts of package redishold.
func ScriptNames(t testing.TB) (names []string) {
	t.Helper()
	folder := filepath.Dir(scriptPath(t, "acquire"))
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".lua"); ok {
			names = append(names, name)
		}
	}
	return names
}

// ScriptSHA returns the digest by which a script is called.
func ScriptSHA(t testing.TB, name string) string {
	t.Helper()
	sum := sha1.Sum([]byte(ScriptSource(t, name)))
	return hex.EncodeToString(sum[:])
}

// scriptFile reads a file of the folder of scripts.
func scriptFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(scriptPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// scriptPath returns the path of a script. The folder of scripts lies beside a folder above that
// of the test.
func scriptPath(t testing.TB, name string) string {
	t.Helper()
	file := filepath.Join("redishold", "internal", "scripts", filepath.FromSlash(name)+".lua")
	for above := "."; len(above) < 30; above = filepath.Join(above, "..") {
		if _, err := os.Stat(filepath.Join(above, file)); err == nil {
			return filepath.Join(above, file)
		}
	}
	t.Fatalf("no file %s in any folder above", file)
	return ""
}
