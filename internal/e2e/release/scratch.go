package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// scratch is a folder with a module proxy, and the environment of users who have it.
type scratch struct {
	dir   string
	proxy proxy
}

func newScratch(dir string) *scratch {
	return &scratch{dir: dir, proxy: proxy{filepath.Join(dir, "proxy")}}
}

// env is the environment of a go command that gets our modules from the proxy of the
// folder, and others from the module cache of this machine, then from its proxy. Modules
// go to a cache of the folder: a version that is only rehearsed must not stay in the
// other. With -trimpath packages of others, which are in another folder in each run, are
// compiled once. go.sum has the sums of others, so no database is asked for them.
func (s *scratch) env(ctx context.Context) ([]string, error) {
	out, err := output(ctx, s.dir, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, from, _ := strings.Cut(out, "\n")
	proxies := []string{"file://" + s.proxy.dir, "file://" + filepath.Join(cache, "cache", "download")}
	for _, p := range strings.FieldsFunc(from, func(c rune) bool { return c == ',' || c == '|' }) {
		if p != "direct" && p != "off" {
			proxies = append(proxies, p)
		}
	}
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath -modcacherw -buildvcs=false", "GOTOOLCHAIN=local",
		"GOPROXY="+strings.Join(proxies, ","), "GOMODCACHE="+filepath.Join(s.dir, "mod"),
		"GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=", "GONOSUMDB=", "GOBIN="+filepath.Join(s.dir, "bin")), nil
}

// resolves shows that the go command finds all packages: of the workspace, and of each
// published module and example without it, with the sums of its go.sum. The code is that of the commit
// before, so it is not compiled again.
func (s *scratch) resolves(ctx context.Context, r repo) error {
	t, err := readTree(r.dir)
	if err != nil {
		return err
	}
	env, err := s.env(ctx)
	if err != nil {
		return err
	}
	for _, m := range t.alone() {
		if _, err := output(ctx, filepath.Join(r.dir, m.dir), env, "go", "list", "-mod=readonly", "-deps", "./..."); err != nil {
			return fmt.Errorf("%s without the workspace: %w", m.path(), err)
		}
	}
	args := []string{"list", "-deps"}
	for _, m := range t.mods {
		args = append(args, "./"+filepath.ToSlash(filepath.Join(m.dir, "...")))
	}
	_, err = output(ctx, r.dir, append(os.Environ(), "GOWORK="+filepath.Join(r.dir, "go.work")), "go", args...)
	return err
}
