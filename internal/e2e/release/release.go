package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

const (
	mainBranch = "main"
	beforeFile = ".ci/version-before"
)

// release is one version on its way: a commit that sets it in all modules, and a tag for
// each published module at this commit.
//
// What is done is read from git, never remembered. So a run that was stopped is followed
// by a run that goes on. The commit is made in a scratch clone and arrives whole.
type release struct {
	repo
	version string
	date    time.Time
	out     io.Writer
	at      *scratch                // where it is prepared; nil for a folder of its own
	done    func(step string) error // for tests: called after each step, its error ends the run
}

// run makes what is missing of the version. An error says what there is, and how to go on
// or back.
func (r *release) run(ctx context.Context) error {
	err := r.steps(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.New("stopped")
	}
	return fmt.Errorf("%w\n%s", err, r.standing(context.WithoutCancel(ctx)))
}

func (r *release) steps(ctx context.Context) error {
	if err := r.mayBegin(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"checked", r.checkRemote},
		{"prepared", r.prepare},
		{"committed", r.takeCommit},
		{"tagged", r.tag},
	} {
		if err := step.do(ctx); err != nil {
			return err
		}
		if err := r.end(ctx, step.name); err != nil {
			return err
		}
	}
	return r.finish(ctx)
}

// end reports a step that is done.
func (r *release) end(ctx context.Context, step string) error {
	fmt.Fprintln(r.out, step)
	if r.done != nil {
		if err := r.done(step); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// mayBegin finds what forbids the version before anything is changed.
func (r *release) mayBegin(ctx context.Context) error {
	if semver.Canonical(r.version) != r.version || semver.Build(r.version) != "" {
		return fmt.Errorf("%q is no version such as v0.1.0", r.version)
	}
	if m := semver.Major(r.version); m != "v0" && m != "v1" {
		return fmt.Errorf("%s: from v2 on, module paths end with /%s", r.version, m)
	}
	if branch, err := r.git(ctx, "symbolic-ref", "--short", "HEAD"); err != nil || branch != mainBranch {
		return fmt.Errorf("the clone is on %q; releases are made on %s", branch, mainBranch)
	}
	changed, err := r.git(ctx, "status", "--porcelain")
	switch {
	case err != nil:
		return err
	case changed != "" && r.commitOf(ctx, r.ref()) != "":
		return fmt.Errorf("an earlier run was stopped while it changed files; \"git reset --hard\" restores them\n%s", changed)
	case changed != "":
		return fmt.Errorf("the tree has changes; commit them or set them aside\n%s", changed)
	}
	return r.checkTags(ctx)
}

// checkTags finds tags of the version that are not at HEAD, and versions above it.
func (r *release) checkTags(ctx context.Context) error {
	tags, err := r.tags()
	if err != nil {
		return err
	}
	head := r.commitOf(ctx, "HEAD")
	for _, tag := range tags {
		at := r.commitOf(ctx, "refs/tags/"+tag)
		if at != "" && (at != head || !r.committed(ctx)) {
			return fmt.Errorf("there is a tag %s at %.12s, and HEAD is %.12s; to go on with that commit: git reset --keep %.12s", tag, at, head, at)
		}
	}
	all, err := r.git(ctx, "tag", "--list", "v*")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(all) {
		if semver.IsValid(tag) && semver.Compare(tag, r.version) > 0 {
			return fmt.Errorf("%s is below %s, which exists", r.version, tag)
		}
	}
	return nil
}

// tags returns the names of the version's tags, in order.
func (r *release) tags() (tags []string, err error) {
	t, err := readTree(r.dir)
	if err != nil {
		return nil, err
	}
	for _, m := range t.published() {
		tags = append(tags, m.tag(r.version))
	}
	return tags, nil
}

// checkRemote finds tags of the version that somebody else has pushed.
func (r *release) checkRemote(ctx context.Context) error {
	remotes, err := r.git(ctx, "remote")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(remotes), "origin") {
		fmt.Fprintln(r.out, "there is no remote origin whose tags could be compared")
		return nil
	}
	list, err := r.git(ctx, "ls-remote", "--tags", "origin")
	if err != nil {
		return err
	}
	tags, err := r.tags()
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		id, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name := strings.TrimPrefix(ref, "refs/tags/")
		if !slices.Contains(tags, name) {
			continue
		}
		if mine, err := r.git(ctx, "rev-parse", "-q", "--verify", ref); err != nil || mine != id {
			return fmt.Errorf("origin has a tag %s that this clone does not have: git fetch --tags", name)
		}
	}
	return nil
}

// subject is the first line of the commit.
func (r *release) subject() string { return "Release " + r.version }

// committed says that HEAD is the commit of the version.
func (r *release) committed(ctx context.Context) bool {
	subject, err := r.git(ctx, "log", "-1", "--format=%s")
	return err == nil && subject == r.subject()
}

// ref keeps the commit from when it is made until it has its tags.
func (r *release) ref() string { return "refs/release/" + r.version }

// prepare makes the commit in a scratch clone, and fetches it under ref.
func (r *release) prepare(ctx context.Context) error {
	if r.committed(ctx) {
		return nil
	}
	s := r.at
	if s == nil {
		temp, err := os.MkdirTemp("", "holdfast-release-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		s = newScratch(temp)
	}
	c, err := r.clone(ctx, filepath.Join(s.dir, r.version), "HEAD")
	if err != nil {
		return err
	}
	if err := r.edit(c.dir); err != nil {
		return err
	}
	if err := s.proxy.publish(ctx, c, r.version); err != nil {
		return err
	}
	if err := s.resolves(ctx, c); err != nil {
		return err
	}
	if err := r.commitIn(ctx, c); err != nil {
		return err
	}
	_, err = r.git(ctx, "fetch", "-q", "--no-tags", c.dir, "+HEAD:"+r.ref())
	return err
}

// edit writes what is not in the modules: the section of CHANGELOG.md, and the version
// that the next one is compared with.
func (r *release) edit(dir string) error {
	name := filepath.Join(dir, "CHANGELOG.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	cut, err := cutChangelog(string(text), r.version, r.date)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(cut), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, beforeFile), []byte(r.version+"\n"), 0o644)
}

// commitIn commits what is staged in the scratch clone, in the name of who releases.
func (r *release) commitIn(ctx context.Context, c repo) error {
	var who []string
	for _, key := range []string{"user.name", "user.email"} {
		value, err := r.git(ctx, "config", key)
		if err != nil {
			return fmt.Errorf("git config %s is not set", key)
		}
		who = append(who, "-c", key+"="+value)
	}
	_, err := c.git(ctx, append(who, "commit", "-q", "-a", "-m", r.subject())...)
	return err
}

// takeCommit moves main and the working tree to the commit.
func (r *release) takeCommit(ctx context.Context) error {
	if r.committed(ctx) {
		return nil
	}
	_, err := r.git(ctx, "merge", "-q", "--ff-only", r.ref())
	return err
}

// tag makes the tags that are missing, in the order in which modules require each other.
func (r *release) tag(ctx context.Context) error {
	tags, err := r.tags()
	if err != nil {
		return err
	}
	for _, tag := range tags {
		if r.commitOf(ctx, "refs/tags/"+tag) != "" {
			continue
		}
		if _, err := r.git(ctx, "tag", "-a", "-m", tag, tag, "HEAD"); err != nil {
			return err
		}
		if err := r.end(ctx, "  "+tag); err != nil {
			return err
		}
	}
	return nil
}

// finish prints how to publish the version.
func (r *release) finish(ctx context.Context) error {
	tags, err := r.tags()
	if err != nil {
		return err
	}
	_, _ = r.git(ctx, "update-ref", "-d", r.ref())
	fmt.Fprintf(r.out, "%s is ready in this clone, nothing is pushed. To publish it:\n\n  git push --atomic origin %s %s\n\nTo take it back before that: %s\n",
		r.version, mainBranch, strings.Join(tags, " "), r.undo(tags))
	return nil
}

func (r *release) undo(tags []string) string {
	undo := "git reset --keep HEAD~1"
	if len(tags) > 0 {
		undo = "git tag -d " + strings.Join(tags, " ") + " && " + undo
	}
	return undo
}

// standing says what there is of the version, and how to go on or back.
func (r *release) standing(ctx context.Context) string {
	if !r.committed(ctx) {
		return "Nothing of " + r.version + " is in this clone: no commit, no tag. Run it again when the cause is gone."
	}
	tags, err := r.tags()
	if err != nil {
		return err.Error()
	}
	var have, want []string
	for _, tag := range tags {
		if r.commitOf(ctx, "refs/tags/"+tag) == r.commitOf(ctx, "HEAD") {
			have = append(have, tag)
		} else {
			want = append(want, tag)
		}
	}
	return fmt.Sprintf("Done: the commit %q; tags: %s.\nMissing tags: %s. Nothing is pushed.\nTo go on: make release VERSION=%s\nTo go back: %s",
		r.subject(), list(have), list(want), r.version, r.undo(have))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
