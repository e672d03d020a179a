package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// compare runs adapters of the version before with the root of this one, and programs of
// both versions beside each other, on the same servers.
func (r *rehearsal) compare(ctx context.Context) error {
	stores, shut, err := startStores(r.dir)
	defer shut()
	if errors.Is(err, anystore.ErrMissing) || errors.Is(err, redistest.ErrMissing) {
		if os.Getenv("CI") == "" {
			fmt.Fprintln(r.out, "SKIPPED: nothing is compared on the stores that are missing:", err)
		} else {
			return err
		}
	} else if err != nil {
		return err
	}
	old, err := r.module(ctx, "old", r.at(r.before)...)
	if err != nil {
		return err
	}
	if err := r.binary(ctx, old, "build", "./wire"); err != nil {
		return err
	}
	// That was the version before. Now its root alone is upgraded.
	if _, err := r.golang(ctx, old, "get", r.modules[0]+"@"+r.first); err != nil {
		return err
	}
	if err := errors.Join(r.has(ctx, old, r.before, r.modules[1:]...), r.has(ctx, old, r.first, r.modules[0])); err != nil {
		return err
	}
	if err := r.runsWith(ctx, old); err != nil {
		return err
	}
	return r.together(ctx, map[string]func(context.Context) error{
		"  drivertest: adapters of " + r.before + ", root of " + r.first: func(ctx context.Context) error { return r.conform(ctx, old, stores) },
		"  " + r.before + " and " + r.first + " contend for locks":       func(ctx context.Context) error { return r.contend(ctx, old, stores) },
	})
}

// runsWith builds and runs a program with every adapter.
func (r *rehearsal) runsWith(ctx context.Context, dir string) error {
	_, err := r.golang(ctx, dir, "run", "./adapters")
	return err
}

// binary builds a program of a user's module into the module's folder.
func (r *rehearsal) binary(ctx context.Context, dir, command, program string, flags ...string) error {
	args := append([]string{command, "-o", filepath.Join(dir, filepath.Base(program)+".bin")}, flags...)
	_, err := r.golang(ctx, dir, append(args, program)...)
	return err
}

// conform runs the conformance suite.
func (r *rehearsal) conform(ctx context.Context, dir string, stores []string) error {
	if err := r.binary(ctx, dir, "test", "./conform", "-c"); err != nil {
		return err
	}
	env := append(os.Environ(), "STORES="+strings.Join(stores, " "))
	_, err := output(ctx, dir, env, "./conform.bin", "-test.timeout=90s", "-test.parallel=16")
	return err
}

// contend has a program of each version on each store.
func (r *rehearsal) contend(ctx context.Context, old string, stores []string) error {
	now, err := r.module(ctx, "new", r.at(r.first)...)
	if err != nil {
		return err
	}
	if err := r.binary(ctx, now, "build", "./wire"); err != nil {
		return err
	}
	parts := map[string]func(context.Context) error{}
	for _, url := range stores {
		if strings.HasPrefix(url, "goredis:") {
			continue // the same server
		}
		parts["    "+url] = func(ctx context.Context) error {
			return wire{old: filepath.Join(old, "wire.bin"), now: filepath.Join(now, "wire.bin"), url: url, dir: r.dir}.run(ctx)
		}
	}
	return r.together(ctx, parts)
}

// startStores starts a server of each store, and returns the URLs of those that there are.
func startStores(dir string) (urls []string, shut func(), err error) {
	var servers []func()
	shut = func() {
		for _, end := range servers {
			end()
		}
	}
	data := func(name string) string {
		folder := filepath.Join(dir, name+"-data")
		err = errors.Join(err, os.Mkdir(folder, 0o755))
		return folder
	}
	s, failed := redistest.Run(data("redis"))
	if err = errors.Join(err, failed); failed == nil {
		servers = append(servers, s.Close)
		urls = append(urls, "redis://"+s.Addr(), "goredis://"+s.Addr())
	}
	for _, k := range anystore.All() {
		if k.ReleaseURL == nil {
			continue
		}
		s, failed := k.Run(data(k.Name))
		if err = errors.Join(err, failed); failed == nil {
			servers = append(servers, s.Close)
			urls = append(urls, k.ReleaseURL(s.Addr))
		}
	}
	return urls, shut, err
}
