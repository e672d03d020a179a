package main

import (
	"fmt"
	"strings"
	"time"
)

const unreleased = "## Unreleased\n"

// cutChangelog makes the section of a version from what is under Unreleased, which must
// have a line.
func cutChangelog(text, version string, date time.Time) (string, error) {
	before, after, found := strings.Cut(text, unreleased)
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section Unreleased")
	}
	section, _, _ := strings.Cut(after, "\n## ")
	if !strings.Contains(section, "\n- ") {
		return "", fmt.Errorf("CHANGELOG.md has no line under Unreleased: say what %s changes", version)
	}
	return before + unreleased + "\n## " + version + ", " + date.Format("2 January 2006") + "\n" + after, nil
}
