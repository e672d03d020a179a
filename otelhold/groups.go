package otelhold

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

// Prefix is a ready-made Options.Group: the text before the first colon or
// decimal digit. "stock:42" and "stock:43" are of the group "stock", "order-7"
// is of "order-". A name with neither is its own group, so use Prefix where names
// are made from a fixed set of prefixes.
func Prefix(name string) string {
	if i := strings.IndexAny(name, ":0123456789"); i >= 0 {
		return name[:i]
	}
	return name
}

// groups gives names their label, and keeps the number of labels bounded
// whatever the user's function answers. A group that was let in stays in, and
// one that was not never gets in, so that a gauge goes up and down under one
// label.
type groups struct {
	of func(name string) string // nil if there are no groups

	mu   sync.RWMutex
	seen map[string]bool
}

func newGroups(of func(string) string) *groups {
	return &groups{of: of, seen: make(map[string]bool)}
}

// label returns the group of a lock: valid UTF-8, "" if it has none.
func (g *groups) label(name string) string {
	if g.of == nil {
		return ""
	}
	group := g.of(name)
	if len(group) > maxGroup {
		group = group[:maxGroup]
	}
	group = strings.ToValidUTF8(group, "\uFFFD")
	if group == "" || g.admit(group) {
		return group
	}
	return otherGroup
}

// admit says that a group has a place among the first maxGroups.
func (g *groups) admit(group string) bool {
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
