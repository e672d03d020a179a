package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// proxy is a folder that a file:// URL in GOPROXY names.
type proxy struct{ dir string }

// publish sets the version in the clone's tree, and publishes the modules. Each go.sum has
// the sums of the modules below, and is itself part of what its module's sum covers: so a
// module is packed when those that it requires have been.
func (p proxy) publish(ctx context.Context, r repo, version string) error {
	t, err := readTree(r.dir)
	if err != nil {
		return err
	}
	if err := t.setVersion(version); err != nil {
		return err
	}
	sums := map[module.Version]string{}
	for _, m := range t.alone() {
		if err := t.setSums(m, sums); err != nil {
			return err
		}
		if _, err := r.git(ctx, "add", "-A"); err != nil {
			return err
		}
		if !m.published() {
			continue
		}
		if err := p.add(ctx, r, m, version, sums); err != nil {
			return fmt.Errorf("%s: %w", m.path(), err)
		}
	}
	return nil
}

// add publishes one module as it is staged, and adds its sums.
func (p proxy) add(ctx context.Context, r repo, m *mod, version string, sums map[module.Version]string) error {
	v := module.Version{Path: m.path(), Version: version}
	folder, err := p.folder(m.path())
	if err != nil {
		return err
	}
	files, err := r.filesOf(ctx, m)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, v, files); err != nil {
		return err
	}
	gomod, err := os.ReadFile(filepath.Join(r.dir, m.dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	base := filepath.Join(folder, version)
	for suffix, data := range map[string][]byte{".zip": packed.Bytes(), ".mod": gomod, ".info": info} {
		if err := os.WriteFile(base+suffix, data, 0o644); err != nil {
			return err
		}
	}
	if err := appendLine(filepath.Join(folder, "list"), version); err != nil {
		return err
	}
	if sums[v], err = dirhash.HashZip(base+".zip", dirhash.Hash1); err != nil {
		return err
	}
	v.Version += "/go.mod"
	sums[v], err = dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(gomod)), nil
	})
	return err
}

// folder makes the folder of a module.
func (p proxy) folder(path string) (string, error) {
	escaped, err := module.EscapePath(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(p.dir, filepath.FromSlash(escaped), "@v")
	return dir, os.MkdirAll(dir, 0o755)
}

func appendLine(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
