package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/repo"
)

// phrase is a pattern for words that a reader with English as a second language has to read
// twice, and what to say. CONTRIBUTING.md has the glossary.
type phrase struct{ words, say string }

func phrases() []phrase {
	return []phrase{
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
}

// namedSo matches exported names with words that no reader expects in code.
const namedSo = `Told|Tells?[A-Z]|^Tell|Heed|Happening|Insist|Chapter|Witness|Doubt|Diary|Chronicle|Patience|Whoever|Blame`

// words returns the phrases in documents, comments, templates, text files and strings of
// programs, and exported names with such words.
func words(r *repo.Repository) (found []finding) {
	s := newSearch()
	names := regexp.MustCompile(namedSo)
	actions := regexp.MustCompile(`{{[^}]*}}`)
	for _, name := range r.Files {
		text := r.Text[name]
		_, chinese := repo.EnglishOf(name)
		switch ext := path.Ext(name); {
		case chinese, name == "internal/e2e/mutants/list.txt": // which quotes code
		case ext == ".md":
			text, _ = repo.Prose(text)
			found = append(found, s.in(name, 1, text)...)
		case ext == ".txt", ext == ".html":
			found = append(found, s.in(name, 1, actions.ReplaceAllString(text, " "))...)
		case ext == ".lua":
			found = append(found, s.in(name, 1, scriptComments(text, "--"))...)
		case ext == ".sh", path.Dir(name) == ".ci", name == "Makefile":
			found = append(found, s.in(name, 1, scriptComments(text, "# "))...)
		}
	}
	for name, file := range r.Code {
		if path.Dir(name) == "internal/repo/report" { // which has all of them
			continue
		}
		line := func(n ast.Node) int { return r.Fset.Position(n.Pos()).Line }
		for _, group := range file.Comments {
			for _, c := range group.List {
				found = append(found, s.in(name, line(c), c.Text)...)
			}
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, text := range stringsIn(file) {
			value, _ := strconv.Unquote(text.Value) // the parser has checked it
			found = append(found, s.in(name, line(text), value)...)
		}
		for _, id := range exportedIn(file) {
			if names.MatchString(id.Name) {
				found = append(found, finding{name, line(id), "the name " + id.Name})
			}
		}
	}
	return found
}

// search finds phrases.
type search struct {
	phrases []phrase
	any     *regexp.Regexp // of them: much faster than to ask which one it is
	each    *regexp.Regexp // with a group for each of them
	code    *regexp.Regexp // what is no prose
}

func newSearch() *search {
	s := &search{phrases: phrases(), code: codeInProse()}
	all := make([]string, len(s.phrases))
	for i, p := range s.phrases {
		all[i] = strings.ReplaceAll(p.words, "(", "(?:")
	}
	s.any = regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
	s.each = regexp.MustCompile(`(?i)\b(?:(` + strings.Join(all, ")|(") + `))\b`)
	return s
}

// codeInProse matches what stands in backquotes, in quotes, in links and in tags.
func codeInProse() *regexp.Regexp {
	return regexp.MustCompile("`[^`]*`|\"[^\"]*\"|\\]\\([^)]*\\)|<[^>]*>")
}

// in returns the phrases in lines of a file, the first of which has the number first.
func (s *search) in(file string, first int, text string) (found []finding) {
	if !s.any.MatchString(text) {
		return nil
	}
	number := first
	for line := range strings.Lines(text) {
		prose := s.code.ReplaceAllString(line, " ")
		for _, match := range s.each.FindAllStringSubmatch(prose, -1) {
			which := slices.IndexFunc(match[1:], func(group string) bool { return group != "" })
			found = append(found, finding{file, number, fmt.Sprintf("%q: say %s", match[0], s.phrases[which].say)})
		}
		number++
	}
	return found
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

// stringsIn returns the strings of a file that have more than one word.
func stringsIn(file *ast.File) (found []*ast.BasicLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
			found = append(found, lit)
		}
		return true
	})
	return found
}

// exportedIn returns the exported names that a file declares, also those of fields.
func exportedIn(file *ast.File) (ids []*ast.Ident) {
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
