package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// mod is a module of the tree.
type mod struct {
	dir  string // in the tree, "." for the root
	file *modfile.File
}

func (m *mod) path() string { return m.file.Module.Mod.Path }

// published says that the module gets tags. The others are for this repository alone, or
// examples.
func (m *mod) published() bool {
	return m.dir != "bench" && m.dir != "internal" && !strings.HasPrefix(m.dir, "internal/") && !m.example()
}

// example says that users copy the module. A copy has the versions and the sums of what is
// published.
func (m *mod) example() bool { return strings.HasPrefix(m.dir, "examples/") }

// tag returns the name of the tag of a version, which begins with the module's folder.
func (m *mod) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// tree is a workspace as it is on disk.
type tree struct {
	dir  string
	work *modfile.WorkFile
	mods []*mod // of the workspace, each after those that it requires

	// apart are those below internal that are not in the workspace: their go.mod replaces
	// those that they require, and must name the versions that these require of each other.
	apart []*mod
}

// readTree reads go.work, each go.mod that it names, and those of the modules apart.
func readTree(dir string) (*tree, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir}
	if t.work, err = modfile.ParseWork("go.work", data, nil); err != nil {
		return nil, err
	}
	for _, use := range t.work.Use {
		m, err := readMod(dir, path.Clean(use.Path))
		if err != nil {
			return nil, err
		}
		t.mods = append(t.mods, m)
	}
	return t, errors.Join(t.readApart(), t.sort())
}

// readApart reads the modules that go.work does not name.
func (t *tree) readApart() error {
	found, err := fs.Glob(os.DirFS(t.dir), "internal/*/go.mod")
	if err != nil {
		return err
	}
	for _, name := range found {
		dir := path.Dir(name)
		if slices.ContainsFunc(t.mods, func(m *mod) bool { return m.dir == dir }) {
			continue
		}
		m, err := readMod(t.dir, dir)
		if err != nil {
			return err
		}
		t.apart = append(t.apart, m)
	}
	return nil
}

// readMod reads the go.mod in a folder of the tree.
func readMod(tree, dir string) (*mod, error) {
	name := path.Join(dir, "go.mod")
	data, err := os.ReadFile(filepath.Join(tree, name))
	if err != nil {
		return nil, err
	}
	m := &mod{dir: dir}
	if m.file, err = modfile.Parse(name, data, nil); err != nil {
		return nil, err
	}
	if m.file.Module == nil {
		return nil, fmt.Errorf("%s has no module line", name)
	}
	return m, nil
}

// sort puts each module after those that it requires.
func (t *tree) sort() error {
	var sorted []*mod
	var place func(m *mod, above []*mod) error
	place = func(m *mod, above []*mod) error {
		if slices.Contains(above, m) {
			return fmt.Errorf("%s requires itself by way of others", m.path())
		}
		if slices.Contains(sorted, m) {
			return nil
		}
		for _, sibling := range t.siblings(m) {
			if m.published() && !sibling.published() {
				return fmt.Errorf("%s requires %s, which is not published", m.path(), sibling.path())
			}
			if err := place(sibling, append(above, m)); err != nil {
				return err
			}
		}
		sorted = append(sorted, m)
		return nil
	}
	for _, m := range t.mods {
		if err := place(m, nil); err != nil {
			return err
		}
	}
	t.mods = sorted
	return nil
}

// siblings returns the modules of the tree that m requires.
func (t *tree) siblings(m *mod) (found []*mod) {
	for _, r := range m.file.Require {
		if i := slices.IndexFunc(t.mods, func(s *mod) bool { return s.path() == r.Mod.Path }); i >= 0 {
			found = append(found, t.mods[i])
		}
	}
	return found
}

// published returns the modules that get tags, in the order of their tags.
func (t *tree) published() (found []*mod) {
	for _, m := range t.mods {
		if m.published() {
			found = append(found, m)
		}
	}
	return found
}

// alone returns the modules that are built without the workspace, in their order.
func (t *tree) alone() (found []*mod) {
	for _, m := range t.mods {
		if m.published() || m.example() {
			found = append(found, m)
		}
	}
	return found
}

// setVersion writes the requirements on published modules, and go.work's replacements of
// them.
func (t *tree) setVersion(version string) error {
	for _, m := range slices.Concat(t.mods, t.apart) {
		for _, s := range t.siblings(m) {
			if !s.published() {
				continue
			}
			if err := m.file.AddRequire(s.path(), version); err != nil {
				return err
			}
		}
		data, err := m.file.Format()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(t.dir, m.dir, "go.mod"), data, 0o644); err != nil {
			return err
		}
	}
	for _, r := range t.work.Replace {
		for _, m := range t.published() {
			if r.Old.Path == m.path() {
				r.Syntax.Token[slices.Index(r.Syntax.Token, r.Old.Version)] = version
			}
		}
	}
	return os.WriteFile(filepath.Join(t.dir, "go.work"), modfile.Format(t.work.Syntax), 0o644)
}

// setSums writes into the go.sum of m the sums of its siblings, in place of those that it
// has of them.
func (t *tree) setSums(m *mod, sums map[module.Version]string) error {
	name := filepath.Join(t.dir, m.dir, "go.sum")
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all := map[module.Version]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 3 && !t.has(f[0]) {
			all[module.Version{Path: f[0], Version: f[1]}] = f[2]
		}
	}
	for _, s := range t.siblings(m) {
		for v, sum := range sums {
			if v.Path == s.path() {
				all[v] = sum
			}
		}
	}
	return writeSums(name, all)
}

// has says that a module is one of the tree.
func (t *tree) has(path string) bool {
	return slices.ContainsFunc(t.mods, func(m *mod) bool { return m.path() == path })
}

// writeSums writes a go.sum in the order of the go command, or none without sums.
func writeSums(name string, all map[module.Version]string) error {
	if len(all) == 0 {
		return nil
	}
	var versions []module.Version
	for v := range all {
		versions = append(versions, v)
	}
	module.Sort(versions)
	var text strings.Builder
	for _, v := range versions {
		fmt.Fprintf(&text, "%s %s %s\n", v.Path, v.Version, all[v])
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}
