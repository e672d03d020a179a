package repo

import (
	"path"
	"slices"
	"testing"
	"testing/synctest"
)

// TestRepository checks the rules of CONTRIBUTING.md that fail a change. A copy of the root
// module alone, as in a module cache, is not the whole repository.
func TestRepository(t *testing.T) {
	files, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := withModules(files)
	if len(r.modules) == 1 {
		t.Skip("this is the root module alone")
	}
	for name, check := range map[string]func(*testing.T, *repository){
		"RootIsStandardLibraryOnly":        rootIsStandardLibraryOnly,
		"ImportsPointDown":                 importsPointDown,
		"EverythingIsDocumented":           everythingIsDocumented,
		"CommentsHaveTheirNames":           commentsHaveTheirNames,
		"NoStateOutsideOfValues":           noStateOutsideOfValues,
		"ScriptsHaveHeaders":               scriptsHaveHeaders,
		"WorkspaceIsWhole":                 workspaceIsWhole,
		"MakeTargetsExist":                 makeTargetsExist,
		"ShortTestsRunWhole":               shortTestsRunWhole,
		"FoldersHaveRows":                  foldersHaveRows,
		"ReasonsAreDescribed":              reasonsAreDescribed,
		"NoBuildIsCommitted":               noBuildIsCommitted,
		"MergesAreFinished":                mergesAreFinished,
		"DocumentsPointAtWhatExists":       documentsPointAtWhatExists,
		"LinksLeadToHeadings":              linksLeadToHeadings,
		"PagesAreListed":                   pagesAreListed,
		"ChinesePagesHaveTheCode":          chinesePagesHaveTheCode,
		"OldestVersionsAreAsSaid":          oldestVersionsAreAsSaid,
		"ContainerIsSmallAndWithoutRights": containerIsSmallAndWithoutRights,
		"LeaksAreLookedFor":                leaksAreLookedFor,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, r) }) // which waits for goroutines: there are none
		})
	}
}

// repository has the files and the modules that the checks read.
type repository struct {
	*Repository
	modules map[string]module // of the workspace, by folder
	outside map[string]module // those that go.work does not list
}

func withModules(files *Repository) *repository {
	r := &repository{Repository: files, modules: map[string]module{}, outside: map[string]module{}}
	used := workspace(files.Text["go.work"])
	for _, name := range files.Files {
		if path.Base(name) != "go.mod" {
			continue
		}
		in := r.outside
		if slices.Contains(used, path.Dir(name)) {
			in = r.modules
		}
		in[path.Dir(name)] = parseGoMod(files.Text[name])
	}
	return r
}

// moduleOf returns the folder of the module that a file belongs to.
func (r *repository) moduleOf(name string) string {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		_, within := r.modules[dir]
		_, outside := r.outside[dir]
		if within || outside || dir == "." {
			return dir
		}
	}
}

// text returns the text of a file that must exist.
func (r *repository) text(t *testing.T, name string) string {
	t.Helper()
	text, ok := r.Text[name]
	if !ok {
		t.Fatalf("no file %s", name)
	}
	return text
}
