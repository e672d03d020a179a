package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/zip"
)

// filesOf returns what git has of a module, as the go command packs it from a tag: a module
// without a licence gets that of the root. zip.Create leaves out the modules below. (Its
// CreateFromVCS has git pack the whole tree for each module, which takes half a second.)
func (r repo) filesOf(ctx context.Context, m *mod) (files []zip.File, err error) {
	out, err := r.git(ctx, "ls-files", "-z", "--", m.dir)
	if err != nil {
		return nil, err
	}
	licence := false
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if m.dir != "." {
			name = strings.TrimPrefix(name, m.dir+"/")
		}
		licence = licence || name == "LICENSE"
		files = append(files, file{filepath.Join(r.dir, m.dir), name})
	}
	if _, err := os.Stat(filepath.Join(r.dir, "LICENSE")); err == nil && !licence {
		files = append(files, file{r.dir, "LICENSE"})
	}
	return files, nil
}

// file is a zip.File in a folder.
type file struct{ dir, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.name)) }
