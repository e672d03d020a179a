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
	endsWithin = 2 * time.Minute
	// scripts is where those for Redis are.
	scripts = "redishold/internal/scripts"
	// simSeeds is how many seeds a simulated mutant has to die.
	simSeeds = "100"
)

// laboratory is where mutants are tested.
type laboratory struct {
	root, temp string

	mu    sync.Mutex
	sound map[string]func() error // by test: that it passes without a mutant
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
	file := filepath.Join(l.root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("does not apply: its text is in %s %d times", m.file, n)
	}
	dir, err := os.MkdirTemp(l.temp, "")
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, filepath.FromSlash(m.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err == nil && filepath.Ext(m.file) == ".lua" {
		err = os.CopyFS(filepath.Join(dir, scripts), os.DirFS(filepath.Join(l.root, scripts)))
	}
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(changed), 0o700)); err == nil {
		err = errors.Join(
			os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600),
			os.WriteFile(overlay, replace, 0o600))
	}
	if err != nil {
		return "", err
	}
	killer, err = l.runTest(m, dir, "-overlay="+overlay)
	if killer != "" && m.where != "sim" {
		err = l.passes(m)
	}
	return killer, err
}

// passes tests once that a test passes without a mutant.
func (l *laboratory) passes(m mutant) error {
	l.mu.Lock()
	key := m.pkg + " " + m.run
	if l.sound[key] == nil {
		l.sound[key] = sync.OnceValue(func() error {
			dir, err := os.MkdirTemp(l.temp, "")
			if err != nil {
				return err
			}
			killer, err := l.runTest(m, dir, "")
			if killer != "" {
				err = fmt.Errorf("%s %s fails without the mutant, too", m.pkg, killer)
			}
			return err
		})
	}
	passes := l.sound[key]
	l.mu.Unlock()
	return passes()
}

// runTest compiles and runs the test of a mutant, with a flag for go, also where the test
// runs go itself. It returns the name of a test that failed.
func (l *laboratory) runTest(m mutant, dir, flag string) (failed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*endsWithin)
	defer cancel()
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+flag))
	binary := filepath.Join(dir, "mutant.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-o", binary, m.pkg) //nolint:gosec // from our list
	compile.Dir, compile.Env = l.root, env
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %s", out)
	}
	defer os.Remove(binary) // each has 10 MB and more
	run := m.run
	if m.where == "sim" { // on one processor, it ends with the first seed that fails
		run = "^TestSimulation$/^" + m.run + "$"
		env = append(env, "HOLDFAST_SIM_SEEDS="+simSeeds, "GOMAXPROCS=1")
	}
	test := exec.CommandContext(ctx, binary, "-test.run", run, "-test.v", "-test.failfast", "-test.timeout", endsWithin.String()) //nolint:gosec // ours
	test.Dir, test.Env = filepath.Join(l.root, filepath.FromSlash(m.pkg)), env
	if flag != "" && filepath.Ext(m.file) == ".lua" {
		test.Dir = dir // tests read scripts from a folder above: there is the changed one
	}
	out, err := test.CombinedOutput()
	return verdict(string(out), err)
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
	case regexp.MustCompile(`(?m)^\s*--- SKIP: `).MatchString(out):
		return "", errors.New("the test was skipped: a server is missing")
	}
	return "", nil
}
