package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// users has the programs of users, as a module example.com/users.
//
//go:embed testdata/users
var users embed.FS

// golang runs the go command as a user would in a folder.
func (r *rehearsal) golang(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, r.env, "go", args...)
}

// at names all modules but the command in one version.
func (r *rehearsal) at(version string) (args []string) {
	for _, path := range r.modules {
		args = append(args, path+"@"+version)
	}
	return args
}

// install installs the command and asks it for its version.
func (r *rehearsal) install(ctx context.Context) error {
	if _, err := r.golang(ctx, r.dir, "install", r.modules[0]+"/cmd/holdfast@"+r.first); err != nil {
		return err
	}
	said, err := output(ctx, r.dir, r.env, filepath.Join(r.dir, "bin", "holdfast"), "version")
	if err == nil && !strings.Contains(said, r.first) {
		err = fmt.Errorf("holdfast version says %q, want %s", said, r.first)
	}
	return err
}

// module makes a module with the programs of users, and gets modules for it.
func (r *rehearsal) module(ctx context.Context, name string, get ...string) (dir string, err error) {
	dir = filepath.Join(r.dir, name)
	programs, err := fs.Sub(users, "testdata/users")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, programs); err != nil {
		return "", err
	}
	return dir, r.get(ctx, dir, get...)
}

// get makes dir a module, and gets modules and what its programs import.
func (r *rehearsal) get(ctx context.Context, dir string, get ...string) error {
	if _, err := r.golang(ctx, dir, "mod", "init", "example.com/users"); err != nil {
		return err
	}
	for _, args := range [][]string{get, {"-t", "./..."}} {
		if _, err := r.golang(ctx, dir, append([]string{"get"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// adapters builds and runs a program with every module, and upgrades its modules to the
// next version, which has the same code: it is found, and not compiled again.
func (r *rehearsal) adapters(ctx context.Context) error {
	dir, err := r.module(ctx, "adapters", r.at(r.first)...)
	if err != nil {
		return err
	}
	said, err := r.golang(ctx, dir, "run", "./adapters")
	if err == nil && !strings.HasPrefix(said, "token ") {
		err = fmt.Errorf("the program says %q", said)
	}
	if err := errors.Join(err, r.has(ctx, dir, r.first, r.modules...)); err != nil {
		return err
	}
	if _, err := r.golang(ctx, dir, append([]string{"get"}, r.at("patch")...)...); err != nil {
		return err
	}
	if _, err := r.golang(ctx, dir, "list", "-deps", "./..."); err != nil {
		return err
	}
	return r.has(ctx, dir, r.second, r.modules...)
}

// has shows that a module of a user requires modules in a version.
func (r *rehearsal) has(ctx context.Context, dir, version string, paths ...string) error {
	versions, err := r.golang(ctx, dir, append([]string{"list", "-m"}, paths...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(versions) {
		if f := strings.Fields(line); len(f) != 2 || f[1] != version {
			return fmt.Errorf("the module has %s, want %s", strings.TrimSpace(line), version)
		}
	}
	return nil
}

// filesOf returns the Go files of a page: its program, and the test of that.
func filesOf(page string) map[string]string {
	found := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(page, -1) {
		name := "main.go"
		if strings.Contains(block[1], "\"testing\"\n") {
			name = "main_test.go"
		}
		found[name] += block[1] // a second program would not compile: this must learn of it then
	}
	return found
}

// readme compiles the program of README.md, and runs its test.
func (r *rehearsal) readme(ctx context.Context) error {
	page, err := r.top.git(ctx, "show", "HEAD:README.md")
	if err != nil {
		return err
	}
	files := filesOf(page)
	if files["main.go"] == "" {
		return fmt.Errorf("README.md has no program")
	}
	dir := filepath.Join(r.dir, "readme")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	root := r.modules[0]
	if err := r.get(ctx, dir, root+"@"+r.first, root+"/redishold/goredisconn@"+r.first); err != nil {
		return err
	}
	_, err = r.golang(ctx, dir, "test", ".")
	return err
}
