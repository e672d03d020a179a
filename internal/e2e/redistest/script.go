package redistest

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ScriptSource returns the text of one of package redishold's scripts as servers
// are sent it: with the shared functions that its header names, and those that they
// name.
func ScriptSource(t testing.TB, name string) string {
	t.Helper()
	header, body, _ := strings.Cut(scriptFile(t, name), "\n\n")
	return header + "\n\n" + shared(t, header, map[string]bool{}) + body
}

// shared returns the functions that a header names, but for those of had.
func shared(t testing.TB, header string, had map[string]bool) (source string) {
	t.Helper()
	for line := range strings.Lines(header) {
		used, ok := strings.CutPrefix(line, "-- Uses   ")
		if !ok {
			continue
		}
		for _, name := range strings.Split(strings.TrimSpace(used), ", ") {
			if had[name] {
				continue
			}
			had[name] = true
			text := scriptFile(t, "shared/"+name)
			header, _, _ := strings.Cut(text, "\n\n")
			source += shared(t, header, had) + text + "\n"
		}
	}
	return source
}

// ScriptSHA returns the digest by which a script is called.
func ScriptSHA(t testing.TB, name string) string {
	t.Helper()
	sum := sha1.Sum([]byte(ScriptSource(t, name)))
	return hex.EncodeToString(sum[:])
}

// scriptFile reads a file of the folder of scripts, which lies beside a folder
// above that of the test.
func scriptFile(t testing.TB, name string) string {
	t.Helper()
	file := filepath.Join("redishold", "internal", "scripts", filepath.FromSlash(name)+".lua")
	for above := "."; len(above) < 30; above = filepath.Join(above, "..") {
		text, err := os.ReadFile(filepath.Join(above, file))
		if err == nil {
			return string(text)
		}
	}
	t.Fatalf("no file %s in any folder above", file)
	return ""
}
