package ordered

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// Tokens of a claim begin at the number of its entry, shifted by tokenBits. A claim may
// reserve MaxTokens; what is above them is for readers beside their writer.
const (
	tokenBits = 10
	// MaxTokens is how many tokens a claim may reserve: Info.MaxTokens of a store.
	MaxTokens = 1 << (tokenBits - 1)
)

// tokenOf returns the first token of a claim, by the number of its entry.
func tokenOf(order uint64) uint64 { return order << tokenBits }

// idOf makes the ID of a claim of its owner.
func idOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:8])
}

// markOf returns what the entry of c says.
func markOf(c *driver.Claim) Mark {
	m := Mark{Kind: Mutex, ID: idOf(c.Owner)}
	switch {
	case c.Mode == driver.Permit:
		m.Kind, m.Permits = Permit, max(c.Permits, 1)
	case c.Mode == driver.Shared:
		m.Kind = Reader
	case c.ReadWrite:
		m.Kind = Writer
	}
	return m
}

// Find returns the index of the entry with this ID, or -1.
func Find(queue []Entry, id string) int {
	return slices.IndexFunc(queue, func(e Entry) bool { return e.Mark.ID == id })
}

// use is what a name is used for.
func (k Kind) use() string {
	switch k {
	case Writer, Reader:
		return "read-write lock"
	case Permit:
		return "semaphore"
	default:
		return "mutex"
	}
}

// mismatch returns an error if one of the entries before an entry of kind k says that
// the name is used for something else. Those of other programs go with all kinds.
func mismatch(name string, before []Entry, k Kind) error {
	for _, e := range before {
		if e.Mark.ID != "" && e.Mark.Kind.use() != k.use() {
			return fmt.Errorf("%q is a %s, and no %s: %w", name, e.Mark.Kind.use(), k.use(), driver.ErrMismatch)
		}
	}
	return nil
}

// blocked returns the entries, of those before that of a claim with mark m, for one of
// which it has to wait; none if it holds.
func blocked(before []Entry, m Mark) []Entry {
	keepsOut := func(Entry) bool { return true }
	switch m.Kind {
	case Reader:
		keepsOut = func(e Entry) bool { return e.Mark.Kind != Reader && !e.Shared }
	case Permit:
		keepsOut = func(e Entry) bool { return e.Mark.Kind != Permit }
	}
	for i := len(before) - 1; i >= 0; i-- {
		if keepsOut(before[i]) {
			return before[i : i+1]
		}
	}
	if m.Kind == Permit && len(before) >= PermitsOf(before, m) {
		return before
	}
	return nil
}

// PermitsOf is how many permits a name has, to a claim with mark m behind others: what
// the first of them says that says something.
func PermitsOf(before []Entry, m Mark) int {
	for _, e := range before {
		if e.Mark.Kind == Permit && e.Mark.Permits > 0 {
			return e.Mark.Permits
		}
	}
	return m.Permits
}
