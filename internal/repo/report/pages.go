package main

import (
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/repo"
)

// lengths returns how long each page in English is, without its code, the longest page first.
func lengths(r *repo.Repository) []finding {
	ends := regexp.MustCompile(`[.!?:][)"*` + "`" + `]*\s`)
	count := map[string]int{} // words
	var found []finding
	for _, page := range r.Files {
		if _, chinese := repo.EnglishOf(page); path.Ext(page) != ".md" || chinese {
			continue
		}
		text, _ := repo.Prose(r.Text[page])
		count[page] = len(strings.Fields(text))
		found = append(found, finding{page, 1, fmt.Sprintf("%d words, %.1f in a sentence", count[page], sentenceLength(text, ends))})
	}
	slices.SortStableFunc(found, func(a, b finding) int { return count[b.file] - count[a.file] })
	return found
}

// sentenceLength returns the average number of words in the sentences of a page, without tables
// and headings. The parameter `ends` matches the end of a sentence.
func sentenceLength(text string, ends *regexp.Regexp) float64 {
	words, sentences := 0, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			continue
		}
		words += len(strings.Fields(line))
		sentences += len(ends.FindAllString(line+" ", -1))
	}
	return float64(words) / float64(max(sentences, 1))
}

// behind returns the pages in Chinese whose page in English has changed since their last
// commit. A page in Chinese with changes that are not committed is in work, so it is none.
func behind(r *repo.Repository) (found []finding) {
	for _, page := range r.Files {
		english, chinese := repo.EnglishOf(page)
		if !chinese {
			continue
		}
		commit := git(r.Root, "log", "-1", "--format=%h", "--", page)
		switch {
		case commit == "":
			found = append(found, finding{page, 1, "git knows no commit of it"})
		case git(r.Root, "diff", "--shortstat", "HEAD", "--", page) != "":
		case git(r.Root, "diff", "--shortstat", commit, "--", english) != "":
			found = append(found, finding{page, 1, fmt.Sprintf("git diff %s %s", commit, english)})
		}
	}
	return found
}

// git returns what a command of git prints in a folder, or "" if it fails.
func git(dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
