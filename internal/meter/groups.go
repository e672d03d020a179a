package meter

import (
	"strings"
	"sync"
)

const (
	// maxGroups bounds the values of the label lock_group. Each value is a set of
	// series for every kind of lock and every outcome.
	maxGroups = 100
	// maxGroup bounds a value in bytes.
	maxGroup = 128
	// otherGroup is the value for all groups after the first maxGroups.
	otherGroup = "other"
)

// Prefix returns the text before the first colon or decimal digit, which is all
// of a name that has neither.
func Prefix(name string) string {
	if i := strings.IndexAny(name, ":0123456789"); i >= 0 {
		return name[:i]
	}
	return name
}

// Groups gives names their label, and keeps the number of labels bounded
// whatever the user's function answers. A group that was let in stays in, and
// one that was not never gets in, so that a gauge goes up and down under one
// label. Its methods may be called from several goroutines at once.
type Groups struct {
	of func(name string) string // nil if there are no groups

	mu   sync.RWMutex
	seen map[string]bool
}

// NewGroups returns Groups that ask of for the group of a name; nil means that
// no name has one.
func NewGroups(of func(name string) string) *Groups {
	return &Groups{of: of, seen: make(map[string]bool)}
}

// Label returns the group of a lock: valid UTF-8 of about 128 bytes at most, ""
// if it has none, "other" if there are too many.
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

// admit says that a group has a place among the first maxGroups.
func (g *Groups) admit(group string) bool {
	g.mu.RLock()
	known, full := g.seen[group], len(g.seen) >= maxGroups
	g.mu.RUnlock()
	if known || full {
		return known
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.seen[group] && len(g.seen) < maxGroups {
		g.seen[group] = true
	}
	return g.seen[group]
}

// Text returns what a user wrote as a label: valid UTF-8.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
