package plaintest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// installed returns the path of what .ci/interop-python or .ci/interop-node have
// made ready. Where it is missing the test skips, or fails if the environment
// variable CI is set.
func installed(t testing.TB, script string, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{peer.Folder(t)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		missing(t, "%v; make interop prepares it, with .ci/%s", err, script)
	}
	return path
}

// missing skips t, or fails it where CI is set.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// python returns how to run peer.py.
func python(t testing.TB, url string) *exec.Cmd {
	t.Helper()
	return exec.Command(installed(t, "interop-python", "python", "bin", "python"), "../python/peer.py", url)
}

// node returns how to run peer.mjs with a version of node-redlock.
func node(t testing.TB, url, version string) *exec.Cmd {
	t.Helper()
	modules := installed(t, "interop-node", "node", "node_modules")
	program, err := exec.LookPath("node")
	if err != nil {
		missing(t, "%v; install Node.js 18 or newer to run this test", err)
	}
	cmd := exec.Command(program, "../node/peer.mjs", url, version)
	cmd.Env = append(os.Environ(), "NODE_MODULES="+modules)
	return cmd
}
