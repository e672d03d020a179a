package repo

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chinesePagesHaveTheCode compares the code of each page in Chinese with that of its page in
// English. Tests run the code of the page in English.
func chinesePagesHaveTheCode(t *testing.T, r *repository) {
	found := 0
	for _, page := range r.Files {
		english, chinese := EnglishOf(page)
		if !chinese {
			continue
		}
		found++
		want, got := bareCode(r.text(t, english)), bareCode(r.Text[page])
		if i := firstDifference(want, got); i >= 0 {
			t.Errorf("%s has %q where the code of %s has %q", page, lineAt(got, i), english, lineAt(want, i))
		}
	}
	if found == 0 {
		t.Error("no page in Chinese found")
	}
}

// firstDifference returns the first index at which two lists of lines differ, or -1.
func firstDifference(one, two []string) int {
	for i := range max(len(one), len(two)) {
		if i >= len(one) || i >= len(two) || one[i] != two[i] {
			return i
		}
	}
	return -1
}

// lineAt returns a line, or "" after the last one.
func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// codeComment matches a comment in code, by the language of a block.
var codeComment = map[string]*regexp.Regexp{
	"go": regexp.MustCompile(`(?:^|[ \t]+)//.*`), "java": regexp.MustCompile(`(?:^|[ \t]+)//.*`),
	"sh": regexp.MustCompile(`(?:^|[ \t]+)#.*`), "yaml": regexp.MustCompile(`(?:^|[ \t]+)#.*`),
	"sql": regexp.MustCompile(`(?:^|[ \t]+)--.*`),
}

// bareCode returns the lines of the code of a page without its comments, in which pages of two
// languages differ, and without blocks of the language text.
func bareCode(page string) (lines []string) {
	_, code := Prose(page)
	language := ""
	for line := range strings.Lines(code) {
		line = strings.TrimRight(line, " \t\n")
		if mark, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			language = mark // of its end: none
		} else if comment := codeComment[language]; comment != nil {
			line = comment.ReplaceAllString(line, "")
		}
		if line != "" && language != "text" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Comments may differ, code and its order may not.
func TestBareCode(t *testing.T) {
	for code, want := range map[string]bool{
		"# 甲\n```go\na() // 乙\n// 丙\n```\n":     true,
		"# 甲\n```go\nb() // One.\n```\n":        false,
		"# 甲\n```go\na() // 乙\n```\n```sh\n```": false,
		"# 甲\n```sh\na() // One.\n```\n":        false,
		"# 甲\n":                                 false,
	} {
		if same := slices.Equal(bareCode("# A\n\n```go\na() // One.\n```\n\n```text\nOne\n```\n"), bareCode(code+"```text\n甲\n```\n")); same != want {
			t.Errorf("%q: the same code: %v, want %v", code, same, want)
		}
	}
}
