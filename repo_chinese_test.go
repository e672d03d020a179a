//go:build !race

package holdfast_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write in each page in Chinese that it has all of its page in English")

// stamp is the last line of a page in Chinese: the page in English that it was written from,
// and the beginning of the SHA-256 of each section of that page.
var stamp = regexp.MustCompile(`(?m)^<!-- from (\S+):((?: [0-9a-f]{12})+) -->\n?\z`)

// englishOf returns the page in English of a page in Chinese.
func englishOf(page string) (english string, chinese bool) {
	if page == "README.zh-CN.md" {
		return "README.md", true
	}
	return "docs/" + path.Base(page), path.Dir(page) == "docs/zh"
}

// chineseFaults returns what is wrong with a page in Chinese: sections of the page in English
// that changed since, and code that differs. With the flag -update it first writes the last
// line of the page.
func chineseFaults(t *testing.T, page, english string) (faults []string) {
	t.Helper()
	text := read(t, page)
	original := read(t, english)
	if *update {
		text = strings.TrimRight(stamp.ReplaceAllString(text, ""), "\n") + "\n\n" + stampOf(english, original)
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const then = "; then run go test . -run TestRepository/PagesAreInOrder -update"
	if changed, err := changedSince(text, english, original); err != nil {
		faults = append(faults, err.Error()+": translate all of it"+then)
	} else if len(changed) > 0 {
		faults = append(faults, fmt.Sprintf("it is behind %s: translate what changed in %q%s", english, changed, then))
	}
	one, two := bareCode(original), bareCode(text)
	for i := range max(len(one), len(two)) {
		if i >= len(one) || i >= len(two) || one[i] != two[i] {
			return append(faults, fmt.Sprintf("it has other code than %s: %q in place of %q", english, at(two, i), at(one, i)))
		}
	}
	return faults
}

// at returns a line, or "" after the last one.
func at(lines []string, i int) string {
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
	_, code := prose(page)
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

// stampOf returns the last line of a page that was written from a page in English.
func stampOf(english, original string) string {
	line := "<!-- from " + english + ":"
	for _, s := range sectionsOf(original) {
		line += " " + s.hash
	}
	return line + " -->\n"
}

// changedSince returns the titles of the sections of the original that the page was not
// written from. A removed section has no title any more.
func changedSince(page, english, original string) (changed []string, err error) {
	m := stamp.FindStringSubmatch(page)
	if m == nil || m[1] != english {
		return nil, fmt.Errorf("the last line does not have the sections of %s", english)
	}
	known := strings.Fields(m[2])
	for _, s := range sectionsOf(original) {
		if i := slices.Index(known, s.hash); i >= 0 {
			known = slices.Delete(known, i, i+1)
		} else {
			changed = append(changed, s.title)
		}
	}
	if len(known) > len(changed) {
		changed = append(changed, fmt.Sprintf("(%d removed)", len(known)-len(changed)))
	}
	return changed, nil
}

// sectionOfPage is a part of a page up to the next heading of the first or second level.
type sectionOfPage struct{ title, hash string }

func sectionsOf(text string) (all []sectionOfPage) {
	lines := strings.SplitAfter(text, "\n")
	end := len(lines)
	for _, h := range slices.Backward(headingsOf(text)) {
		if h.level <= 2 {
			sum := sha256.Sum256([]byte(strings.TrimSpace(strings.Join(lines[h.line:end], ""))))
			all = append(all, sectionOfPage{h.title, fmt.Sprintf("%x", sum)[:12]})
			end = h.line
		}
	}
	slices.Reverse(all)
	return all
}

// What the check of a page in Chinese must find, and what it must leave alone.
func TestFaultsOfChinesePagesAreFound(t *testing.T) {
	const page = "# A\n\nOne.\n\n## B\n\nTwo.\n\n```sh\n## no section\n```\n\n### C\n\nThree.\n\n## D\n\nFour.\n"
	written := "# 甲\n\n" + stampOf("docs/a.md", page)
	for name, c := range map[string]struct {
		now  string
		want []string
	}{
		"nothing changed":        {page, nil},
		"only space at its end":  {page + "\n", nil},
		"the beginning":          {strings.Replace(page, "One", "1", 1), []string{"A"}},
		"code":                   {strings.Replace(page, "## no", "## yes", 1), []string{"B"}},
		"a part of a section":    {strings.Replace(page, "Three", "3", 1), []string{"B"}},
		"a new section":          {page + "\n## E\n\nFive.\n", []string{"E"}},
		"a title, and a section": {strings.Replace(strings.Replace(page, "## D", "## F", 1), "One", "1", 1), []string{"A", "F"}},
		"a removed section":      {strings.Replace(page, "## D\n\nFour.\n", "", 1), []string{"(1 removed)"}},
		"another order":          {strings.Replace(page, "## D\n\nFour.\n", "", 1) + "## D\n\nFour.\n", nil},
	} {
		if got, err := changedSince(written, "docs/a.md", c.now); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
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
	for _, text := range []string{"# 甲\n", written + "\n## 乙\n", strings.Replace(written, "docs/a.md", "docs/b.md", 1)} {
		if _, err := changedSince(text, "docs/a.md", page); err == nil {
			t.Errorf("no error for the page %q", text)
		}
	}
}
