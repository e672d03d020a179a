package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// repo is a clone with a working tree.
type repo struct{ dir string }

// git runs git in the clone and returns what it prints, without the last line feed.
func (r repo) git(ctx context.Context, args ...string) (string, error) {
	return output(ctx, r.dir, nil, "git", args...)
}

// output runs a program in a folder and returns its standard output. The error has the end
// of what it printed.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &all
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(all.String()+out.String(), 40))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// lastLines returns the last n lines of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// clone makes a clone of the commit at folder, on a branch main.
func (r repo) clone(ctx context.Context, folder, commit string) (repo, error) {
	c := repo{folder}
	if _, err := r.git(ctx, "clone", "-q", "--no-checkout", r.dir, folder); err != nil {
		return c, err
	}
	_, err := c.git(ctx, "checkout", "-q", "-B", mainBranch, commit)
	return c, err
}

// commitOf returns the commit that a name stands for, or "".
func (r repo) commitOf(ctx context.Context, name string) string {
	id, err := r.git(ctx, "rev-parse", "-q", "--verify", name+"^{commit}")
	if err != nil {
		return ""
	}
	return id
}
