package meter

import (
	"strings"
	"sync"
)

const (
	// maxGroups bounds the number of values of the label lock_group. Each value adds one series
	// for every kind of lock and every outcome.
	maxGroups = 100
	// maxGroup bounds the length of such a value, in bytes.
	maxGroup = 128
	// otherGroup is the value for all groups after the first maxGroups.
	otherGroup = "other"
)

// Prefix returns the part of a name before its first colon or decimal digit. If the name has
// neither, Prefix returns the whole name.
func Prefix(name string) string {
	if i := strings.IndexAny(name, ":0123456789"); i >= 0 {
		return name[:i]
	}
	return name
}

// Groups chooses the value of the label lock_group for a lock, by the name of the lock. It
// bounds the number of values, whatever the user's function returns. The first maxGroups groups
// keep their values, and all other groups share one value. A group never changes its value, so
// a gauge goes up and down under the same label. Several goroutines may call its methods at
// once.
type Groups struct {
	of func(name string) string // returns the group of a name; nil if there are no groups

	mu   sync.Mutex
	seen map[string]bool
}

// NewGroups returns Groups. The function `of` returns the group of a name. If `of` is nil, no
// name has a group.
func NewGroups(of func(name string) string) *Groups {
	return &Groups{of: of, seen: make(map[string]bool)}
}

// Label returns the group of a lock: valid UTF-8 of about 128 bytes at most. It returns "" if
// the lock has no group, and "other" if there are too many groups.
func (g *Groups) Label(name string) string {
	if g.of == nil {
		return ""
	}
	group := g.of(name)
	if len(group) > maxGroup {
		group = group[:maxGroup]
	}
	group = Text(group)
	if group == "" || g.admit(group) {
		return group
	}
	return otherGroup
}

// admit reports whether a group is among the first maxGroups.
func (g *Groups) admit(group string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) < maxGroups {
		g.seen[group] = true
	}
	return g.seen[group]
}

// Text makes a label of a user's text: valid UTF-8.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
