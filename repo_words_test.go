//go:build !race

package holdfast_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// bannedPhrases are phrases that a reader with English as a second language has to read
// twice, and what to say. CONTRIBUTING.md has the glossary.
var bannedPhrases = []struct{ phrase, say string }{
	{`told|tells`, "reported, notified; shows"},
	{`happenings?`, "event"},
	{`insists?|insisting`, "retry"},
	{`heeds?`, "watch"},
	{`patience`, "timeout"},
	{`for ever`, "without limit, until it is deleted"},
	{`who waits|who wait|whoever waits`, "a waiter, waiters"},
	{`who holds|who hold`, "the holder, holders"},
	{`whoever`, "any caller that"},
	{`whomever`, "the caller, the holder"},
	{`who looks?|who asks?|who reads?|who comes?`, "the reader, the caller"},
	{`(fall|falls|fell|gone|grown|grow|go|goes|went) silent`, "stopped responding"},
	{`heard of|hears of|hear of`, "seen, received"},
	{`out of reach`, "unreachable"},
	{`fail-overs?`, "failover"},
	{`(give|gives|gave|given|giving) (it |them |a lock |the lock )?back`, "release, return"},
	{`(hand|hands|handed) (it |them )?in`, "release"},
	{`(hand|hands|handed|handing) (it |them )?on`, "pass on"},
	{`(has|have|had) (its|their) way`, "takes effect"},
	{`mends?|mended|mending`, "fix, repair"},
	{`(no|without a|a) word (of|from|that)`, "no message, no report"},
	{`unsettled`, "indeterminate"},
	{`in doubt`, "indeterminate"},
	{`blames?`, "reason"},
	{`diary|chronicle|chapters?`, "event log"},
	{`tenancy|tenancies`, "hold"},
	{`believes?`, "considers itself the holder"},
	{`fares?|fared`, "result"},
	{`as it stands|as they stand`, "unchanged"},
	{`(that|which) is none`, "name the thing again"},
	{`costs nothing but`, "costs only"},
	{`its own business|their own business|its business`, "is not affected"},
	{`sees to it`, "ensures"},
	{`stands? for it`, "guarantees"},
	{`lest`, "so that … not"},
	{`thereof|therein|hence|thus|hitherto|henceforth`, "plain words"},
	{`of late|ere|betimes|anew`, "again, recently"},
	{`brings? (it|them) about`, "causes"},
	{`comes? to rest`, "stops"},
	{`keeps? (it|them|others) out`, "excludes"},
	{`had not been`, "simple past"},
	{`it was (its|their) own`, "name the cause"},
}

// bannedNames are words that no exported name has.
var bannedNames = regexp.MustCompile(`Told|Tells?[A-Z]|^Tell|Heed|Happening|Insist|Chapter|Witness|Doubt|Diary|Chronicle|Patience|Whoever|Blame`)

// The most findings in documents, in comments, in the help of the commands and in texts.
const mostInDocuments, mostInComments, mostInHelp, mostInTexts = 4, 23, 0, 0

// notRead are the beginnings of paths whose texts, and names in comments, are not in order
// yet. The strings of the last one are code.
var notRead = []string{"cmd/", "dash/event_log", "dash/table.go", "internal/e2e/simoverlay/"}

func isNotRead(name string) bool {
	return slices.ContainsFunc(notRead, func(folder string) bool { return strings.HasPrefix(name, folder) })
}

// bannedPattern matches the phrases, each in a group that begins with group.
func bannedPattern(group string) *regexp.Regexp {
	all := make([]string, len(bannedPhrases))
	for i, b := range bannedPhrases {
		all[i] = group + strings.ReplaceAll(b.phrase, "(", "(?:") + ")"
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
}

// codeSpans are what stands in backquotes, in quotes, in links and in tags.
var codeSpans = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|\\]\\([^)]*\\)|<[^>]*>")

// finding is a banned phrase in a line of a file.
type finding struct {
	file string
	line int
	text string
}

// phrases returns what is banned in lines, the first of which has the number first.
func phrases(file string, first int, text string) (found []finding) {
	if !anyPhrase.MatchString(text) { // much faster than to ask which one it is
		return nil
	}
	number := first
	for line := range strings.Lines(text) {
		bare := codeSpans.ReplaceAllString(line, " ")
		for _, match := range wordsPattern.FindAllStringSubmatch(bare, -1) {
			which := slices.IndexFunc(match[1:], func(group string) bool { return group != "" })
			found = append(found, finding{file, number, fmt.Sprintf("%q: say %s", match[0], bannedPhrases[which].say)})
		}
		number++
	}
	return found
}

var wordsPattern, anyPhrase = bannedPattern("("), bannedPattern("(?:")

// prose returns a page without its blocks of code, and these blocks alone; both have all
// lines, so that numbers stay.
func prose(page string) (text, code string) {
	inside := false
	var t, c strings.Builder
	for line := range strings.Lines(page) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || inside {
			c.WriteString(line)
			t.WriteString("\n")
		} else {
			t.WriteString(line)
			c.WriteString("\n")
		}
		inside = inside != fence
	}
	return t.String(), c.String()
}

// scriptComments returns the comments of a Lua or a shell file, on their lines.
func scriptComments(text, mark string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if _, comment, found := strings.Cut(line, mark); found {
			b.WriteString(strings.TrimRight(comment, "\n"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// actions are those of a template.
var actions = regexp.MustCompile(`{{[^}]*}}`)

// texts returns what is banned in the strings of programs, in templates and in text files.
func texts(t *testing.T, r *repository) (found []finding) {
	for _, name := range r.files {
		if ext := path.Ext(name); (ext == ".txt" || ext == ".html") && !isNotRead(name) && name != "internal/e2e/mutants/list.txt" {
			found = append(found, phrases(name, 1, actions.ReplaceAllString(read(t, name), " "))...)
		}
	}
	for name, file := range r.code {
		if isNotRead(name) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
				text, _ := strconv.Unquote(lit.Value) // the parser has checked it
				found = append(found, phrases(name, r.fset.Position(lit.Pos()).Line, text)...)
			}
			return true
		})
	}
	return found
}

// TestWords counts banned phrases in documents, help, comments and texts, looks for banned
// words in exported names, compares comments with the names that they are about, and prints
// how long the sentences of each page are.
func TestWords(t *testing.T) {
	r := readRepository(t)
	var documents, help, comments []finding
	for _, name := range r.files {
		switch {
		case strings.HasSuffix(name, ".zh-CN.md") || strings.HasPrefix(name, "docs/zh/"):
		case path.Ext(name) == ".md":
			text, code := prose(read(t, name))
			documents = append(documents, phrases(name, 1, text)...)
			if name == "docs/cli.md" { // which a test compares with the help of the commands
				help = append(help, phrases(name, 1, code)...)
			}
			t.Logf("%5.1f words a sentence: %s", sentenceLength(text), name)
		case path.Ext(name) == ".lua":
			comments = append(comments, phrases(name, 1, scriptComments(read(t, name), "--"))...)
		case path.Ext(name) == ".sh", path.Dir(name) == ".ci", name == "Makefile":
			comments = append(comments, phrases(name, 1, scriptComments(read(t, name), "# "))...)
		}
	}
	for name, file := range r.code {
		if name == "repo_words_test.go" {
			continue
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				comments = append(comments, phrases(name, r.fset.Position(c.Pos()).Line, c.Text)...)
			}
		}
		for _, id := range exportedIdentifiers(file) {
			if bannedNames.MatchString(id.Name) && !strings.HasPrefix(id.Name, "Test") {
				t.Errorf("%s: the exported name %s has a banned word", r.fset.Position(id.Pos()), id.Name)
			}
		}
	}
	limit(t, "texts", texts(t, r), mostInTexts)
	checkComments(t, r)
	limit(t, "documents", documents, mostInDocuments)
	limit(t, "help", help, mostInHelp)
	limit(t, "comments", comments, mostInComments)
}

// limit lists findings, and fails t if there are more than most.
func limit(t *testing.T, where string, found []finding, most int) {
	t.Helper()
	slices.SortFunc(found, func(a, b finding) int { return cmp.Or(cmp.Compare(a.file, b.file), a.line-b.line) })
	files := map[string]bool{}
	for _, f := range found {
		files[f.file] = true
		t.Logf("%s:%d: %s", f.file, f.line, f.text)
	}
	t.Logf("%s: %d banned phrases in %d files", where, len(found), len(files))
	if len(found) > most {
		t.Errorf("%s: %d banned phrases, want %d at most", where, len(found), most)
	}
}

func exportedIdentifiers(file *ast.File) (ids []*ast.Ident) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			ids = append(ids, n.Name)
		case *ast.TypeSpec:
			ids = append(ids, n.Name)
		case *ast.ValueSpec:
			ids = append(ids, n.Names...)
		case *ast.Field:
			ids = append(ids, n.Names...)
		}
		return true
	})
	return slices.DeleteFunc(ids, func(id *ast.Ident) bool { return !id.IsExported() })
}

// sentenceLength is the average number of words of the sentences of a page, without tables,
// headings and code.
func sentenceLength(text string) float64 {
	words, sentences := 0, 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			continue
		}
		words += len(strings.Fields(line))
		sentences += len(sentenceEnds.FindAllString(line+" ", -1))
	}
	return float64(words) / float64(max(sentences, 1))
}

var sentenceEnds = regexp.MustCompile(`[.!?:][)"*` + "`" + `]*\s`)

// What the check must find, and what it must leave alone.
func TestWordsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"The holder is told of it.":                 1,
		"It stays for ever, whoever holds it.":      2,
		"The fail-over took 3 s; it is mended.":     2,
		"`told` and \"told\" are code and quotes.":  0,
		"The commander recommends untold mending-s": 1,
		"The holder is notified within a second.":   0,
		"See [the log](docs/told.md).":              0,
	} {
		if found := phrases("page.md", 1, text); len(found) != want {
			t.Errorf("%q: found %v, want %d", text, found, want)
		}
	}
	const source = "package p\n\nvar fixed = \"It is told.\"\n\nvar quoted = `no \"told\" here`\n"
	r := &repository{fset: token.NewFileSet(), code: map[string]*ast.File{}}
	file, err := parser.ParseFile(r.fset, "p/p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.code["p/p.go"] = file
	if found := texts(t, r); len(found) != 1 {
		t.Errorf("in strings: found %v, want a phrase", found)
	}
	text, code := prose("One.\n```\ntold\n```\nTwo.\n")
	if len(phrases("", 1, text)) != 0 || len(phrases("", 1, code)) != 1 || strings.Count(text, "\n") != 5 {
		t.Errorf("prose %q and code %q are not told apart", text, code)
	}
	if got := sentenceLength("One two three. Four five!\n| a | b |\n"); got != 2.5 {
		t.Errorf("sentences have %v words, want 2.5", got)
	}
}
