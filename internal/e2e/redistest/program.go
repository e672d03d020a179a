package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ProgramEnv is the environment variable that names the program of the servers: a
// path, or a name on PATH. Sentinels are the same program, as with every release
// of Redis and of Valkey.
const ProgramEnv = "HOLDFAST_REDIS_SERVER"

const defaultProgram = "redis-server"

// ErrMissing says that redis-server is not on PATH.
var ErrMissing = errors.New("redis-server is not on PATH; install it (Debian: apt-get install redis-server) to run this test")

// program returns the path of the servers' program. It returns ErrMissing only
// where nobody chose one: tests on a chosen server must not pass without it.
func program() (string, error) {
	chosen, isChosen := os.LookupEnv(ProgramEnv)
	if !isChosen || chosen == "" {
		chosen, isChosen = defaultProgram, false
	}
	path, err := exec.LookPath(chosen)
	switch {
	case err == nil:
		return path, nil
	case isChosen:
		return "", fmt.Errorf("%s: %w", ProgramEnv, err)
	default:
		return "", ErrMissing
	}
}

// programRelease returns which server the program is.
func programRelease(path string) (Release, error) {
	out, err := exec.Command(path, "--version").Output() // such as "Redis server v=7.0.15 sha=…"
	name, rest, found := strings.Cut(string(out), " server v=")
	if err != nil || !found {
		return Release{}, fmt.Errorf("%s --version: got %q, error %w", path, out, err)
	}
	if name == "Valkey" {
		return Release{Redis: Version{7, 2}, Valkey: version(rest)}, nil
	}
	return Release{Redis: version(rest)}, nil
}
