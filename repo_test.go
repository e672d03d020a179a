//go:build !race

package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRepository holds the repository to the rules of CONTRIBUTING.md. A copy of
// the root module alone, as in a module cache, is not the whole repository.
func TestRepository(t *testing.T) {
	r := readRepository(t)
	if len(r.modules) == 1 {
		t.Skip("this is the root module alone")
	}
	for name, check := range map[string]func(*testing.T, *repository){
		"RootIsStandardLibraryOnly":        rootIsStandardLibraryOnly,
		"ImportsPointDown":                 importsPointDown,
		"EverythingIsDocumented":           everythingIsDocumented,
		"NoStateOutsideOfValues":           noStateOutsideOfValues,
		"ScriptsHaveHeaders":               scriptsHaveHeaders,
		"WorkspaceIsWhole":                 workspaceIsWhole,
		"MakeTargetsExist":                 makeTargetsExist,
		"ArchitectureNamesFolders":         architectureNamesFolders,
		"ReasonsAreDescribed":              reasonsAreDescribed,
		"NoBuildIsCommitted":               noBuildIsCommitted,
		"RealTimeOnlyFalls":                realTimeOnlyFalls,
		"DocumentsPointAtWhatExists":       documentsPointAtWhatExists,
		"LinksLeadToHeadings":              linksLeadToHeadings,
		"PagesAreInOrder":                  pagesAreInOrder,
		"MergesAreFinished":                mergesAreFinished,
		"ShortTestsRunWhole":               shortTestsRunWhole,
		"OldestVersionsAreAsSaid":          oldestVersionsAreAsSaid,
		"ContainerIsSmallAndWithoutRights": containerIsSmallAndWithoutRights,
	} {
		t.Run(name, func(t *testing.T) { check(t, r) })
	}
}

// repository is what the checks read.
type repository struct {
	fset    *token.FileSet
	files   []string             // all of them
	code    map[string]*ast.File // the Go files among them
	modules map[string]module    // of the workspace, by folder
	outside map[string]module    // those that go.work does not list
}

// module is the content of a go.mod.
type module struct {
	path     string
	requires map[string]string // version by path
	replaces bool
}

func readRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{fset: token.NewFileSet(), code: map[string]*ast.File{}, modules: map[string]module{}, outside: map[string]module{}}
	used := workspace(read(t, "go.work"))
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		r.files = append(r.files, name)
		switch path.Ext(name) {
		case ".go":
			r.code[name], err = parser.ParseFile(r.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		case ".mod":
			in := r.outside
			if slices.Contains(used, path.Dir(name)) {
				in = r.modules
			}
			in[path.Dir(name)] = parseGoMod(read(t, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// workspace returns the folders that a go.work uses.
func workspace(text string) (used []string) {
	for _, line := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(text, -1) {
		used = append(used, path.Clean(line[1]))
	}
	return used
}

// parseGoMod reads the directives that the checks need.
func parseGoMod(text string) module {
	m := module{requires: map[string]string{}}
	block := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		switch words[0] {
		case "module":
			m.path = words[1]
		case "require":
			m.requires[words[1]] = words[2]
		case "replace":
			m.replaces = true
		}
	}
	return m
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

// production returns the Go files that are neither tests nor generated, sorted.
func (r *repository) production() []string {
	var names []string
	for name, file := range r.code {
		if !strings.HasSuffix(name, "_test.go") && !ast.IsGenerated(file) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *repository) at(n ast.Node) token.Position { return r.fset.Position(n.Pos()) }

func rootIsStandardLibraryOnly(t *testing.T, r *repository) {
	root := r.modules["."]
	if len(root.requires) > 0 || root.replaces {
		t.Errorf("go.mod has a require or replace directive")
	}
	nested := map[string]bool{}
	for dir, m := range r.modules {
		if dir != "." {
			nested[m.path] = true
		}
	}
	for name, file := range r.code {
		if r.moduleOf(name) != "." {
			continue
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(imported, "/")
			own := imported == root.path || strings.HasPrefix(imported, root.path+"/")
			if nested[imported] || imported == "C" || strings.Contains(first, ".") && !own {
				t.Errorf("%s: import of %s, which is not the standard library", r.at(spec), imported)
			}
		}
	}
}

func everythingIsDocumented(t *testing.T, r *repository) {
	packages := map[string]bool{} // folder: has a package comment
	for _, name := range r.production() {
		file := r.code[name]
		packages[path.Dir(name)] = packages[path.Dir(name)] || file.Doc.Text() != ""
		for _, decl := range file.Decls {
			for _, id := range undocumented(decl) {
				t.Errorf("%s: %s has no doc comment", r.at(id), id.Name)
			}
		}
	}
	for dir, ok := range packages {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// undocumented returns the exported names of a declaration that have no comment.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc.Text() == "" && (d.Recv == nil || ast.IsExported(receiver(d))) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var found []*ast.Ident
		for _, spec := range d.Specs {
			found = append(found, undocumentedSpec(spec, !d.Lparen.IsValid() && d.Doc.Text() != "")...)
		}
		return found
	}
	return nil
}

func undocumentedSpec(spec ast.Spec, byDecl bool) (found []*ast.Ident) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc.Text() == "" && !byDecl {
			found = append(found, s.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
			for _, m := range i.Methods.List {
				// Client of goredisconn lists methods of another library.
				if len(m.Names) > 0 && m.Doc.Text() == "" && m.Comment.Text() == "" && s.Name.Name != "Client" {
					found = append(found, m.Names[0])
				}
			}
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() && s.Doc.Text() == "" && s.Comment.Text() == "" && !byDecl {
				found = append(found, id)
			}
		}
	}
	return found
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func noStateOutsideOfValues(t *testing.T, r *repository) {
	for _, name := range r.production() {
		for _, decl := range r.code[name].Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: func init", r.at(d))
				}
			case *ast.GenDecl:
				for _, id := range states(d) {
					t.Errorf("%s: package-level variable %s", r.at(id), id.Name)
				}
			}
		}
	}
}

// states returns the variables of a declaration that a program could change.
func states(d *ast.GenDecl) (found []*ast.Ident) {
	if d.Tok != token.VAR {
		return nil
	}
	for _, spec := range d.Specs {
		s := spec.(*ast.ValueSpec)
		embedded := hasEmbed(d.Doc) || hasEmbed(s.Doc)
		for i, id := range s.Names {
			if id.Name == "_" || embedded || i < len(s.Values) && isError(s.Values[i]) {
				continue
			}
			found = append(found, id)
		}
	}
	return found
}

func hasEmbed(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

// isError reports whether value is errors.New(…), fmt.Errorf(…) or another package's ErrX.
func isError(value ast.Expr) bool {
	made := false
	if call, ok := value.(*ast.CallExpr); ok {
		value, made = call.Fun, true
	}
	s, ok := value.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, _ := s.X.(*ast.Ident)
	if !made {
		return strings.HasPrefix(s.Sel.Name, "Err")
	}
	return from != nil && (from.Name == "errors" && s.Sel.Name == "New" || from.Name == "fmt" && s.Sel.Name == "Errorf")
}

// mergesAreFinished finds the lines that git leaves where two changes conflict.
func mergesAreFinished(t *testing.T, r *repository) {
	marker := regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>)( |$)`)
	for _, name := range r.files {
		if at := marker.FindStringIndex(read(t, name)); at != nil {
			t.Errorf("%s: a merge was not finished: line %d", name, 1+strings.Count(read(t, name)[:at[0]], "\n"))
		}
	}
}

// scriptsHaveHeaders requires a header that describes every key and argument of the script,
// and its reply.
func scriptsHaveHeaders(t *testing.T, r *repository) {
	seen := 0
	for _, name := range r.files {
		if path.Ext(name) != ".lua" {
			continue
		}
		seen++
		header, body := cutHeader(read(t, name))
		if header == "" || section(header, "Reply") == "" {
			t.Errorf("%s: the header has no Reply", name)
		}
		for _, list := range []string{"KEYS", "ARGV"} {
			told := section(header, list)
			if strings.Contains(body, list) && told == "" {
				t.Errorf("%s: the header has no %s", name, list)
			}
			for _, use := range regexp.MustCompile(list+`\[(\d+)\]`).FindAllStringSubmatch(body, -1) {
				if !regexp.MustCompile(`\b` + use[1] + `(\.\.\.|\])? `).MatchString(told) {
					t.Errorf("%s: the header does not tell of %s[%s]", name, list, use[1])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no Lua file found")
	}
}

// cutHeader splits a script after the comment that it begins with.
func cutHeader(text string) (header, body string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header += line
	}
	return header, strings.TrimPrefix(text, header)
}

// section returns the part of a header about KEYS, ARGV or Reply: the lines that begin with
// the word, and the indented lines below them.
func section(header, word string) string {
	var text strings.Builder
	within := false
	for line := range strings.Lines(header) {
		within = strings.HasPrefix(line, "-- "+word) || within && strings.HasPrefix(line, "--   ")
		if within {
			text.WriteString(strings.TrimPrefix(line, "-- "+word))
		}
	}
	return text.String()
}

// addVersions adds the versions that a module requires of the released modules below root.
// The others stay at v0.0.0.
func (m module) addVersions(versions map[string]string, dir, root string) {
	for required, version := range m.requires {
		if of, ours := within(required, root); ours && !strings.HasPrefix(of, "internal/") {
			versions[version] = dir + " requires " + required
		}
	}
}

func workspaceIsWhole(t *testing.T, r *repository) {
	if got := slices.Sorted(maps.Keys(r.outside)); !slices.Equal(got, []string{"internal/hosts"}) {
		t.Errorf("go.work leaves out the modules in %q, want only internal/hosts", got)
	}
	root := r.modules["."].path
	versions := map[string]string{}
	for dir, m := range r.modules {
		if dir != "." && m.path != root+"/"+dir {
			t.Errorf("%s/go.mod is of module %s, want %s", dir, m.path, root+"/"+dir)
		}
		if m.replaces {
			t.Errorf("%s/go.mod has a replace directive: go.work is the place", dir)
		}
		m.addVersions(versions, dir, root)
	}
	for dir, m := range r.outside {
		m.addVersions(versions, dir, root)
	}
	if len(versions) != 1 {
		t.Errorf("modules of this repository are required in versions %v, want one version", versions)
	}
}

var (
	makeTarget = regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9]+(?:-[a-z0-9]+)*)")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	fileName   = regexp.MustCompile(`^[\w.*/-]+\.(go|lua|md|mod|yml|work)$`)
	testName   = regexp.MustCompile(`\b(?:Test|Example|Fuzz|Benchmark)[A-Z]\w*`)
	mdLink     = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// makeTargetsExist checks that the targets exist that documents name. TestPages of
// internal/e2e/clitest types the lines of the README and the quickstart.
func makeTargetsExist(t *testing.T, _ *repository) {
	makefile := read(t, "Makefile")
	for _, doc := range []string{"README.md", "CONTRIBUTING.md"} {
		for _, m := range makeTarget.FindAllStringSubmatch(read(t, doc), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: make has no target %s", doc, m[1])
			}
		}
	}
}

// architectureNamesFolders requires a row for each folder with code: in
// docs/architecture.md, or for tests with servers and for the command in a README of theirs.
func architectureNamesFolders(t *testing.T, r *repository) {
	folders := map[string]bool{}
	for _, name := range r.files {
		if ext := path.Ext(name); (ext == ".go" || ext == ".lua") && path.Dir(name) != "." && !strings.Contains(name, "/testdata/") {
			folders[path.Dir(name)] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		in, folder := "docs/architecture.md", dir
		for _, above := range []string{"internal/e2e/", "cmd/holdfast/internal/"} {
			if below, ok := strings.CutPrefix(dir, above); ok {
				in, folder = above+"README.md", below
			}
		}
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(folder) + "`").MatchString(read(t, in)) {
			t.Errorf("%s has no row for `%s`", in, folder)
		}
	}
}

// documentsPointAtWhatExists checks that the files and links exist that documents name. Pages
// for users also name the test that shows what they say. Pages about the code may name what
// has another name by now.
func documentsPointAtWhatExists(t *testing.T, r *repository) {
	tests := map[string]bool{}
	bases := map[string]bool{}
	for _, name := range r.files {
		bases[path.Base(name)] = true
	}
	for name, file := range r.code {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") {
				tests[d.Name.Name] = true
			}
		}
	}
	for _, doc := range r.files {
		if path.Ext(doc) != ".md" {
			continue
		}
		text := read(t, doc)
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(path.Join(path.Dir(doc), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", doc, m[1], err)
			}
		}
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if !isFile(m[1], bases) {
				t.Errorf("%s: `%s`: no such file", doc, m[1])
			}
			if isAboutCode(doc) {
				continue
			}
			for _, name := range testName.FindAllString(m[1], -1) {
				if !tests[name] {
					t.Errorf("%s: `%s`: no test called %s", doc, m[1], name)
				}
			}
		}
	}
}

// isAboutCode reports whether a page describes the code, and not what a user gets.
func isAboutCode(page string) bool {
	return path.Dir(page) == "docs/adr" || slices.Contains([]string{"docs/ways.md", "docs/changing.md", "docs/turns.md"}, page)
}

// isFile reports whether a code span names a file that exists, or no file.
func isFile(span string, bases map[string]bool) bool {
	if !fileName.MatchString(span) || strings.HasPrefix(span, "/") {
		return true
	}
	if bases[span] {
		return true // its folder is given beside it
	}
	found, _ := fs.Glob(os.DirFS("."), path.Clean(span))
	return len(found) > 0
}
