package runningtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	page   = "docs/running.md"
	folder = "docs/running/"
)

// The times of the page, in seconds.
const (
	workTime    = 30 // what the command or the work needs, in the files of the page
	runTime     = 20 // what run and elect need beside it
	libraryTime = 10 // what a program with the library needs beside it
)

// The page shows each file of its folder, whole, and no other block but one line for elect.
func TestPageHasItsFiles(t *testing.T) {
	files, err := filepath.Glob(root + folder + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	shown := map[string]bool{}
	for _, b := range pages.Of(t, page) {
		shown[b.Text] = true
	}
	for _, name := range files {
		if text := pages.File(t, folder+filepath.Base(name)); !shown[text] {
			t.Errorf("%s does not show %s as it is", page, name)
		}
	}
	if len(shown) != len(files)+1 {
		t.Errorf("%s has %d blocks, want one for each of %d files, and the command of elect", page, len(shown), len(files))
	}
}

// machine is a machine on which the files of the page are installed.
type machine struct {
	*testing.T
	server    *redistest.Server
	bin       string // stands for /usr/local/bin
	installed *strings.Replacer
}

// newMachine returns a machine whose programs are shell scripts, by name.
func newMachine(t *testing.T, programs map[string]string) *machine {
	t.Helper()
	const user = " on >secret ~* &* +@all"
	m := &machine{T: t, server: redistest.Start(t, redistest.Conf("user report"+user, "user billing"+user)), bin: t.TempDir()}
	built, err := filepath.Abs(must.Build(t))
	if err == nil {
		err = os.Symlink(built, filepath.Join(m.bin, "holdfast"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range programs {
		m.write(name, "#!/bin/sh\n"+script+"\n", 0o700)
	}
	m.installed = strings.NewReplacer("/usr/local/bin", m.bin, "redis.example:6379", m.server.Addr(), "redis.example", m.server.Addr(),
		"/etc/holdfast/password", m.write("password", "secret\n", 0o600))
	return m
}

// write writes a file beside the programs, and returns its path.
func (m *machine) write(name, text string, mode os.FileMode) string {
	m.Helper()
	path := filepath.Join(m.bin, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		m.Fatal(err)
	}
	return path
}

// file returns a file of the page as it is installed on the machine.
func (m *machine) file(name string) string {
	m.Helper()
	return m.installed.Replace(pages.File(m, folder+name))
}
