package repo

import (
	"path"
	"strings"
)

// EnglishOf returns the page that a page in Chinese was translated from. If the page is not in
// Chinese, chinese is false.
func EnglishOf(page string) (english string, chinese bool) {
	switch {
	case page == "README.zh-CN.md":
		return "README.md", true
	case path.Dir(page) == "docs/zh":
		return "docs/" + path.Base(page), true
	}
	return "", false
}

// Prose returns a page without its blocks of code, and these blocks alone. Both have all lines
// of the page, some of them empty, so that the numbers of lines stay.
func Prose(page string) (text, code string) {
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
