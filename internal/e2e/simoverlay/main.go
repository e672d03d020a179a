// Command simoverlay has the runtime of Go draw its random numbers from the seed of a
// simulation, so that the seed gives the same run again. It prints the flags for go test
// that build with it: an overlay of some files of the runtime, see "go help build". For a
// version of Go whose runtime it does not know it prints none, and why to standard error.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	flags, err := overlay()
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulations are not repeatable, as their overlay cannot be made:", err)
		return
	}
	fmt.Println(flags)
}

// version is that of Go whose runtime was read for this.
const version = "go1.26"

// replacement replaces text of a file of the runtime, which is there once.
type replacement struct{ file, old, by string }

// replacements are what decides the order of things in a process of one thread. They change
// nothing outside of a simulation: simState is 0 then.
func replacements() []replacement {
	const draws = "cheaprandn(uint32(norder + 1))"
	return []replacement{
		// The state of a generator (splitmix64) that goroutines in a bubble draw from.
		{"rand.go", "// rand returns a random uint64 from the per-m chacha8 state.", `var simState uint64

//go:linkname simSeed
func simSeed(state uint64) { simState = state }

//go:nosplit
func simRand() uint64 {
	simState += 0x9e3779b97f4a7c15
	z := simState
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// rand returns a random uint64 from the per-m chacha8 state.`},
		// Package math/rand/v2, maps, and what the compiler asks for.
		{"rand.go", "	mp := getg().m\n	c := &mp.chacha8", "	if simState != 0 && getg().bubble != nil {\n		return simRand()\n	}\n	mp := getg().m\n	c := &mp.chacha8"},
		// Which hash a string has, and where the heap begins, is the same in each process.
		{"rand.go", "	globalRand.state.Init(*seed)", "	clear(seed[:])\n	globalRand.state.Init(*seed)"},
		{"select.go", "		j := " + draws, "		j := " + draws + "\n		if simState != 0 && gp.bubble != nil {\n			j = uint32(simRand() % uint64(norder+1))\n		}"},
		// Timers of one instant.
		{"time.go", "			t.rand = cheaprand()", "			t.rand = cheaprand()\n			if simState != 0 {\n				t.rand = uint32(simRand())\n			}"},
		// A goroutine runs until it waits, however long that takes.
		{"proc.go", "		} else if pd.schedwhen+forcePreemptNS <= now {", "		} else if simState == 0 && pd.schedwhen+forcePreemptNS <= now {"},
		// What is beyond a queue of 256 goroutines comes after them.
		{"proc.go", "	if pp.schedtick%61 == 0 && ", "	if simState == 0 && pp.schedtick%61 == 0 && "},
		// A mutex is fair after a millisecond of real time, which never passes.
		{"sema.go", "func internal_sync_nanotime() int64 {", "func internal_sync_nanotime() int64 {\n	if simState != 0 {\n		return 1\n	}"},
	}
}

// overlay writes the files, and returns the flags.
func overlay() (flags string, err error) {
	out, err := exec.Command("go", "env", "GOVERSION", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	found, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err := known(found); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "holdfast-simoverlay", found)
	files, err := change(filepath.Join(root, "src", "runtime"), replacements())
	if err != nil {
		return "", fmt.Errorf("%s: %w", found, err)
	}
	replaced := map[string]string{}
	for name, text := range files {
		from, to := filepath.Join(root, "src", "runtime", name), filepath.Join(dir, name)
		if err := write(to, []byte(text)); err != nil {
			return "", err
		}
		replaced[from] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return "-tags=simexact -overlay=" + path, write(path, list)
}

// known returns an error for a version of Go whose runtime was not read.
func known(found string) error {
	if found != version && !strings.HasPrefix(found, version+".") {
		return fmt.Errorf("it is for %s, this is %s", version, found)
	}
	return nil
}

// change returns the files of the runtime in dir with the replacements made.
func change(dir string, list []replacement) (map[string]string, error) {
	files, wrong := map[string]string{}, error(nil)
	for _, r := range list {
		if files[r.file] == "" {
			text, err := os.ReadFile(filepath.Join(dir, r.file))
			if err != nil {
				return nil, err
			}
			files[r.file] = string(text)
		}
		if n := strings.Count(files[r.file], r.old); n != 1 {
			wrong = errors.Join(wrong, fmt.Errorf("%s has %q %d times", r.file, r.old, n))
		}
		files[r.file] = strings.Replace(files[r.file], r.old, r.by, 1)
	}
	return files, wrong
}

// write writes a file at once, as another process may read it.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
