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
// are sent it: with the shared functions that its header names.
func ScriptSource(t testing.TB, name string) string {
	t.Helper()
	header, body, _ := strings.Cut(scriptFile(t, name), "\n\n")
	source := header + "\n\n"
	for line := range strings.Lines(header) {
		if used, ok := strings.CutPrefix(line, "-- Uses   "); ok {
			for _, shared := range strings.Split(strings.TrimSpace(used), ", ") {
				source += scriptFile(t, "shared/"+shared) + "\n"
			}
		}
	}
	return source + body
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
	file := filepath.Join("redishold", "scripts", filepath.FromSlash(name)+".lua")
	for above := "."; len(above) < 30; above = filepath.Join(above, "..") {
		text, err := os.ReadFile(filepath.Join(above, file))
		if err == nil {
			return string(text)
		}
	}
	t.Fatalf("no file %s in any folder above", file)
	return ""
}
