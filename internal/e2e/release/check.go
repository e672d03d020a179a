package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"
)

// rehearsal is what check makes in its folder: two versions of this commit, and the
// version before, all in one proxy.
type rehearsal struct {
	*scratch
	top     repo // where it began
	clone   repo // where the versions are made
	env     []string
	first   string // the version of this commit
	second  string // the same with a small change
	before  string // the version before
	modules []string
	out     io.Writer
}

// check releases into a scratch folder, and does there what users do.
func check(ctx context.Context, top string, keep bool, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-release-check-")
	if err != nil {
		return err
	}
	if keep {
		fmt.Fprintln(out, "scratch folder:", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	r := &rehearsal{scratch: newScratch(dir), top: repo{top}, out: out}
	if r.env, err = r.scratch.env(ctx); err != nil {
		return err
	}
	if changed, err := r.top.git(ctx, "status", "--porcelain"); err != nil || changed != "" {
		fmt.Fprintln(out, "what is not committed is not part of this check")
	}
	if err := r.step(ctx, "version of this commit", r.releaseFirst); err != nil {
		return err
	}
	// The command has most packages of others: what follows finds them compiled.
	if err := r.together(ctx, map[string]func(context.Context) error{
		"go install of the command": r.install,
		"the next version":          r.releaseSecond,
		"the version before":        r.publishBefore,
	}); err != nil {
		return err
	}
	return r.together(ctx, map[string]func(context.Context) error{
		"a program with each module, and its upgrade": r.adapters,
		"the program of README.md, and its test":      r.readme,
		"the root alone upgraded, and both versions":  r.compare,
	})
}

// step runs one part and reports it.
func (r *rehearsal) step(ctx context.Context, name string, do func(context.Context) error) error {
	began := time.Now()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(r.out, "%5.1f s  %s\n", time.Since(began).Seconds(), name)
	return nil
}

// together runs parts at the same time, all to their end.
func (r *rehearsal) together(ctx context.Context, parts map[string]func(context.Context) error) error {
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for name, do := range parts {
		all.Go(func() {
			err := r.step(ctx, name, do)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// releaseFirst makes the version in a clone.
func (r *rehearsal) releaseFirst(ctx context.Context) (err error) {
	if r.clone, err = r.top.clone(ctx, filepath.Join(r.dir, "tree"), "HEAD"); err != nil {
		return err
	}
	for key, value := range map[string]string{"user.name": "Rehearsal", "user.email": "rehearsal@example.com"} {
		if _, err := r.clone.git(ctx, "config", key, value); err != nil {
			return err
		}
	}
	tags, err := r.clone.git(ctx, "tag", "--list", "v*")
	if err != nil {
		return err
	}
	r.first, r.second = nextVersions(strings.Fields(tags))
	return r.release(ctx, r.first)
}

// nextVersions returns the minor version above all, and the patch of it.
func nextVersions(tags []string) (first, second string) {
	last := "v0.0.0"
	for _, tag := range tags {
		if semver.IsValid(tag) && semver.Compare(tag, last) > 0 {
			last = tag
		}
	}
	var major, minor int
	_, _ = fmt.Sscanf(last, "v%d.%d.", &major, &minor) // it is valid
	base := fmt.Sprintf("v%d.%d.", major, minor+1)
	return base + "0", base + "1"
}

// release makes a version as make release does. What is published on the way is what users
// get here.
func (r *rehearsal) release(ctx context.Context, version string) error {
	next := &release{repo: r.clone, version: version, date: time.Now().UTC(), out: io.Discard, at: r.scratch}
	if err := next.run(ctx); err != nil {
		return err
	}
	if r.modules == nil {
		t, err := readTree(r.clone.dir)
		if err != nil {
			return err
		}
		for _, m := range t.published() {
			if !strings.HasPrefix(m.dir, "cmd/") {
				r.modules = append(r.modules, m.path())
			}
		}
	}
	return nil
}

// releaseSecond makes a small change and its version.
func (r *rehearsal) releaseSecond(ctx context.Context) error {
	name := filepath.Join(r.clone.dir, "CHANGELOG.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(text), unreleased, unreleased+"\n- A rehearsal.\n", 1)
	if err := os.WriteFile(name, []byte(changed), 0o644); err != nil {
		return err
	}
	if _, err := r.clone.git(ctx, "commit", "-q", "-a", "-m", "A small change"); err != nil {
		return err
	}
	return r.release(ctx, r.second)
}

// publishBefore publishes the version before: a tag as itself, a commit as v0.0.1.
func (r *rehearsal) publishBefore(ctx context.Context) error {
	name, err := r.top.git(ctx, "show", "HEAD:"+beforeFile)
	if err != nil {
		return err
	}
	if r.before = name; !semver.IsValid(name) {
		r.before = "v0.0.1"
	}
	commit := r.top.commitOf(ctx, name)
	if shallow, _ := r.top.git(ctx, "rev-parse", "--is-shallow-repository"); commit == "" && shallow == "true" {
		fmt.Fprintf(r.out, "this clone is shallow and does not have %s, which %s names: this commit takes its place\n", name, beforeFile)
		commit = r.top.commitOf(ctx, "HEAD")
	}
	if commit == "" {
		return fmt.Errorf("%s names %s, which this clone does not have: git fetch --unshallow --tags", beforeFile, name)
	}
	c, err := r.top.clone(ctx, filepath.Join(r.dir, "before"), commit)
	if err != nil {
		return err
	}
	return r.proxy.publish(ctx, c, r.before)
}
