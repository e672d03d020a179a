package peer

import (
	"os"
	"path/filepath"
	"testing"
)

// Folder returns where .ci/interop puts the libraries of other languages:
// $HOLDFAST_INTEROP, or a folder in the user's cache.
func Folder(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("HOLDFAST_INTEROP"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "holdfast-interop")
}
