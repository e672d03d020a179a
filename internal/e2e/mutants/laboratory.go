package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// endsWithin bounds the tests of a mutant. One that hangs is dead.
	endsWithin = 90 * time.Second
	// scripts is where those for Redis are.
	scripts = "redishold/internal/scripts"
	// simSeeds is how many seeds a simulated mutant has to die.
	simSeeds = "100"
)

// laboratory is where mutants are tested.
type laboratory struct {
	root, temp string

	mu    sync.Mutex
	sound map[string]func() (string, error) // by package: its tests, compiled without a mutant
}

// result is what became of a mutant.
type result struct {
	fate  string // dead, alive or error
	text  string
	took  time.Duration
	wrong bool // it is not what the list says
}

// test applies a mutant and runs its test.
func (l *laboratory) test(m mutant) (r result) {
	began := time.Now()
	killer, err := l.apply(m)
	switch {
	case err != nil:
		r = result{fate: "error", text: err.Error(), wrong: true}
	case killer == "":
		r = result{fate: "alive", text: m.alive, wrong: m.alive == ""}
		if r.wrong {
			r.text = fmt.Sprintf("%s %s notices nothing", m.pkg, m.run)
		}
	case m.alive != "":
		r = result{fate: "dead", text: killer + ": its reason to live is not true any more", wrong: true}
	default:
		r = result{fate: "dead", text: m.where + " " + m.pkg + " " + killer}
	}
	r.took = time.Since(began)
	return r
}

// apply returns the test that fails with a mutant and passes without it, "" for none.
func (l *laboratory) apply(m mutant) (killer string, err error) {
	file, text, err := m.find(l.root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(l.temp, "")
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, file)
	overlay := filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(l.root, file): changed}})
	if err == nil && filepath.Ext(file) == ".lua" {
		err = os.CopyFS(filepath.Join(dir, scripts), os.DirFS(filepath.Join(l.root, scripts)))
	}
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(changed), 0o700)); err == nil {
		err = errors.Join(
			os.WriteFile(changed, []byte(strings.Replace(text, m.old, m.new, 1)), 0o600),
			os.WriteFile(overlay, replace, 0o600))
	}
	if err != nil {
		return "", err
	}
	// Where a test runs go itself, that builds the mutant, too.
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	binary, folder := filepath.Join(dir, "mutant.test"), l.folder(m.pkg)
	if err := l.compile(m.pkg, binary, env); err != nil {
		return "", err
	}
	defer os.Remove(binary)           // each has 10 MB and more
	if filepath.Ext(file) == ".lua" { // tests read scripts from a folder above: there is the changed one
		folder = dir
	}
	killer, err = verdict(runTest(m, binary, folder, env))
	if killer != "" && m.where != "sim" {
		err = l.passes(m)
	}
	return killer, err
}

// passes returns an error if the test of a mutant fails without it, too. Its package is
// compiled once for all mutants.
func (l *laboratory) passes(m mutant) error {
	l.mu.Lock()
	if l.sound[m.pkg] == nil {
		binary := filepath.Join(l.temp, fmt.Sprintf("sound-%d.test", len(l.sound)))
		l.sound[m.pkg] = sync.OnceValues(func() (string, error) { return binary, l.compile(m.pkg, binary, os.Environ()) })
	}
	sound := l.sound[m.pkg]
	l.mu.Unlock()
	binary, err := sound()
	if err != nil {
		return err
	}
	killer, err := verdict(runTest(m, binary, l.folder(m.pkg), os.Environ()))
	if killer != "" {
		err = fmt.Errorf("%s %s fails without the mutant, too", m.pkg, killer)
	}
	return err
}

func (l *laboratory) compile(pkg, binary string, env []string) error {
	c := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", binary, pkg)
	c.Dir, c.Env = l.root, env
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("does not compile: %s", out)
	}
	return nil
}

func (l *laboratory) folder(pkg string) string { return filepath.Join(l.root, filepath.FromSlash(pkg)) }

// runTest runs the test of a mutant in a folder, and returns what it printed.
func runTest(m mutant, binary, dir string, env []string) (string, error) {
	run := m.run
	if m.where == "sim" { // on one processor, it ends with the first seed that fails
		run = "^TestSimulation$/^" + m.run + "$"
		env = append(env, "HOLDFAST_SIM_SEEDS="+simSeeds, "GOMAXPROCS=1")
	}
	ctx, cancel := context.WithTimeout(context.Background(), endsWithin+10*time.Second) // if its own bound fails
	defer cancel()
	c := exec.CommandContext(ctx, binary, "-test.run", run, "-test.v", "-test.failfast", "-test.timeout", endsWithin.String())
	c.Dir, c.Env = dir, env
	out, err := c.CombinedOutput()
	return string(out), err
}

// verdict returns the name of the test that failed, "" for none, from what tests have
// printed and how they ended. No test that ran is an error.
func verdict(out string, ended error) (failed string, err error) {
	var exit *exec.ExitError
	first := regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindStringSubmatch(out)
	switch {
	case ended != nil && !errors.As(ended, &exit):
		return "", ended
	case strings.Contains(out, "panic: test timed out"):
		return "hang", nil
	case ended != nil && first != nil:
		return first[1], nil
	case ended != nil:
		return "panic", nil
	case strings.Contains(out, "testing: warning: no tests to run"):
		return "", errors.New("no test has that name")
	case regexp.MustCompile(`(?m)^--- SKIP: `).MatchString(out):
		return "", errors.New("the test was skipped: a server is missing")
	}
	return "", nil
}
