package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func newRelease(r repo, version string) *release {
	return &release{repo: r, version: version, date: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), out: io.Discard}
}

// mustBeReleased shows that the clone has the whole version, and nothing else.
func mustBeReleased(t *testing.T, r repo, version string, commits string) {
	t.Helper()
	if n := mustGit(t, r, "rev-list", "--count", "HEAD"); n != commits {
		t.Errorf("there are %s commits, want %s", n, commits)
	}
	if s := mustGit(t, r, "log", "-1", "--format=%s by %an"); s != "Release "+version+" by Test" {
		t.Errorf("the commit is %q", s)
	}
	if s := mustGit(t, r, "status", "--porcelain"); s != "" {
		t.Errorf("the tree has changes: %s", s)
	}
	head := r.commitOf(t.Context(), "HEAD")
	want := tagsOf(version)
	for _, tag := range want {
		if at := r.commitOf(t.Context(), "refs/tags/"+tag); at != head {
			t.Errorf("tag %s is at %q, want %s", tag, at, head)
		}
	}
	got := strings.Fields(mustGit(t, r, "tag", "--list", "*"+version))
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got tags %v, want %v", got, want)
	}
	if refs := mustGit(t, r, "for-each-ref", "refs/release"); refs != "" {
		t.Errorf("a ref is left: %s", refs)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	r := newTree(t, files())
	var said bytes.Buffer
	first := newRelease(r, "v0.1.0")
	first.out = &said
	if err := first.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustBeReleased(t, r, "v0.1.0", "2")
	if want := "git push --atomic origin main " + strings.Join(tagsOf("v0.1.0"), " "); !strings.Contains(said.String(), want) {
		t.Errorf("it says\n%s\nwithout %q", said.String(), want)
	}
	for name, wants := range map[string][]string{
		"cmd/tool/go.mod": {prefix + " v0.1.0", prefix + "/store v0.1.0"},
		"bench/go.mod":    {prefix + " v0.1.0", prefix + "/store v0.1.0"},

		"examples/buy/go.mod": {prefix + " v0.1.0", prefix + "/store v0.1.0"},
		"internal/hosts/go.mod": {
			prefix + " v0.1.0", prefix + "/bench v0.0.0", prefix + " => ../..\n",
		},
		"go.work":      {prefix + " v0.1.0 => ./\n", prefix + "/store v0.1.0 => ./store\n", prefix + "/bench v0.0.0 => ./bench\n"},
		"CHANGELOG.md": {"## Unreleased\n\n## v0.1.0, 26 November 2026\n\n- A line.\n"},
		beforeFile:     {"v0.1.0\n"},
	} {
		for _, want := range wants {
			if got := read(t, r, name); !strings.Contains(got, want) {
				t.Errorf("%s has no %q:\n%s", name, want, got)
			}
		}
	}

	write(t, r, "CHANGELOG.md", strings.Replace(read(t, r, "CHANGELOG.md"), unreleased, unreleased+"\n- Another.\n", 1))
	commit(t, r, "A change")
	if err := newRelease(r, "v0.1.1").run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustBeReleased(t, r, "v0.1.1", "4")
	if sums := read(t, r, "cmd/tool/go.sum"); strings.Contains(sums, "v0.1.0") || strings.Count(sums, "\n") != 4 {
		t.Errorf("sums of two versions:\n%s", sums)
	}
}

// stoppedAt runs a release until a step is done.
func stoppedAt(t *testing.T, r repo, step string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := newRelease(r, "v0.1.0")
	run.done = func(name string) error {
		if strings.TrimSpace(name) == step {
			cancel()
		}
		return nil
	}
	err := run.run(ctx)
	if err == nil {
		t.Fatalf("%s: the release was not stopped", step)
	}
	return err
}

// A release that is stopped after any step goes on with the next run, or back as it says.
func TestStoppedReleaseGoesOn(t *testing.T) {
	t.Parallel()
	for i, step := range []string{"checked", "prepared", "committed", "v0.1.0", "store/v0.1.0", "tagged"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newTree(t, files())
			began := r.commitOf(t.Context(), "HEAD")
			err := stoppedAt(t, r, step)
			for _, want := range map[bool][]string{
				true:  {"stopped", "no commit, no tag"},
				false: {"stopped", "Done: the commit", "make release VERSION=v0.1.0", "git reset --keep HEAD~1"},
			}[i < 2] {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, want %q in it", err, want)
				}
			}
			if _, back, found := strings.Cut(err.Error(), "To go back: "); found {
				mustGoBack(t, r, back, began)
			}
			if err := newRelease(r, "v0.1.0").run(t.Context()); err != nil {
				t.Fatalf("the second run: %v", err)
			}
			mustBeReleased(t, r, "v0.1.0", "2")
		})
	}
}

// mustGoBack types a command in a copy of the clone, which takes the release back.
func mustGoBack(t *testing.T, r repo, back, began string) {
	t.Helper()
	twin := repo{filepath.Join(t.TempDir(), "twin")}
	if err := os.CopyFS(twin.dir, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	mustGit(t, twin, "status") // which learns of the new files' times
	if _, err := output(t.Context(), twin.dir, nil, "sh", "-ec", back); err != nil {
		t.Error(err)
	}
	if at, tags := twin.commitOf(t.Context(), "HEAD"), mustGit(t, twin, "tag"); at != began || tags != "" {
		t.Errorf("after going back HEAD is %s, want %s; tags: %q", at, began, tags)
	}
}

// A run that was killed while git changed the files leaves a tree with changes.
func TestReleaseKilledInItsMerge(t *testing.T) {
	t.Parallel()
	r := newTree(t, files())
	_ = stoppedAt(t, r, "prepared")
	mustGit(t, r, "checkout", "-q", newRelease(r, "v0.1.0").ref(), "--", "go.work")
	err := newRelease(r, "v0.1.0").run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "git reset --hard") {
		t.Fatalf("got %v, want the command that restores the tree", err)
	}
	mustGit(t, r, "reset", "-q", "--hard")
	if err := newRelease(r, "v0.1.0").run(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustBeReleased(t, r, "v0.1.0", "2")
}

func TestReleaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		version string
		harm    func(r repo)
		want    string
	}{
		"version":      {"0.1.0", nil, "is no version"},
		"short":        {"v0.1", nil, "is no version"},
		"build":        {"v0.1.0+x", nil, "is no version"},
		"v2":           {"v2.0.0", nil, "module paths end with /v2"},
		"branch":       {"v0.1.0", func(r repo) { mustGit(t, r, "checkout", "-q", "-b", "other") }, `on "other"`},
		"detached":     {"v0.1.0", func(r repo) { mustGit(t, r, "checkout", "-q", "--detach") }, "releases are made on main"},
		"changes":      {"v0.1.0", func(r repo) { write(t, r, "new.go", "package lib\n") }, "the tree has changes"},
		"tag":          {"v0.1.0", func(r repo) { mustGit(t, r, "tag", "store/v0.1.0") }, "there is a tag store/v0.1.0"},
		"above":        {"v0.1.0", func(r repo) { mustGit(t, r, "tag", "v0.1.1") }, "below v0.1.1"},
		"no changelog": {"v0.1.0", func(r repo) { write(t, r, "CHANGELOG.md", "## Unreleased\n\n## v0.0.1\n\n- x\n"); commit(t, r, "x") }, "no line under Unreleased"},
		"remote tag": {"v0.1.0", func(r repo) {
			origin, err := r.clone(t.Context(), filepath.Join(t.TempDir(), "origin"), "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			mustGit(t, origin, "tag", "cmd/tool/v0.1.0")
			mustGit(t, r, "remote", "add", "origin", origin.dir)
		}, "origin has a tag cmd/tool/v0.1.0"},
		"remote is away": {"v0.1.0", func(r repo) { mustGit(t, r, "remote", "add", "origin", filepath.Join(r.dir, "nowhere")) }, "ls-remote"},
		"package is not found": {"v0.1.0", func(r repo) {
			write(t, r, "lib.go", "package lib\n\nimport _ \""+prefix+"/missing\"\n")
			commit(t, r, "x")
		}, "missing"},
		"unpublished module": {"v0.1.0", func(r repo) {
			write(t, r, "bench/main.go", "package main\n\nimport _ \""+prefix+"/missing\"\n\nfunc main() {}\n")
			commit(t, r, "x")
		}, "missing"},
	} {
		r := newTree(t, files())
		if tt.harm != nil {
			tt.harm(r)
		}
		head := r.commitOf(t.Context(), "HEAD")
		tags := mustGit(t, r, "tag")
		err := newRelease(r, tt.version).run(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tt.want)
		}
		if now := r.commitOf(t.Context(), "HEAD"); now != head || mustGit(t, r, "tag") != tags {
			t.Errorf("%s: a refused release changed the clone", name)
		}
	}
}

// What the go command makes of the tags, without a proxy, has the sums that are committed.
func TestSumsAreThoseOfTheGoCommand(t *testing.T) {
	t.Parallel()
	r := newTree(t, files())
	if err := newRelease(r, "v0.1.0").run(t.Context()); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GOWORK=off", "GOPROXY=direct", "GOSUMDB=off", "GOVCS=*:git", "GOMODCACHE="+t.TempDir(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+r.dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+prefix)
	for _, dir := range []string{"cmd/tool", "examples/buy"} {
		if _, err := output(t.Context(), filepath.Join(r.dir, dir), env, "go", "build", "-mod=readonly", "-o", os.DevNull, "."); err != nil {
			t.Errorf("a clone without the workspace: %v", err)
		}
	}
	out, err := output(t.Context(), r.dir, env, "go", "mod", "download", "-json", prefix+"/cmd/tool@v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	var loaded struct{ Zip string }
	if err := json.Unmarshal([]byte(out), &loaded); err != nil {
		t.Fatal(err)
	}
	mine := proxy{t.TempDir()}
	if err := mine.publish(t.Context(), r, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(loaded.Zip)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(filepath.Join(mine.dir, prefix, "cmd/tool/@v/v0.1.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(theirs, packed) {
		t.Error("the module's file is not that of the go command")
	}
}

func TestNextVersions(t *testing.T) {
	for tags, want := range map[string]string{
		"":                     "v0.1.0 v0.1.1",
		"v0.1.0 v0.1.1":        "v0.2.0 v0.2.1",
		"v0.9.3 v0.10.0 other": "v0.11.0 v0.11.1",
		"v1.2.3 v0.10.0":       "v1.3.0 v1.3.1",
	} {
		if first, second := nextVersions(strings.Fields(tags)); first+" "+second != want {
			t.Errorf("after %q come %s and %s, want %s", tags, first, second, want)
		}
	}
}

// A process that holds two tokens out of order, or the same twice, is found.
func TestTokensRise(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	for text, good := range map[string]bool{"1\n2\n9\n": true, "2\n1\n": false, "3\n3\n": false, "x\n": false} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := tokensRise(name); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := tokensRise(name + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}
