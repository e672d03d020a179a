package ordered

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// The first token of a claim is the number of its entry, shifted by tokenBits. A claim may
// reserve MaxTokens tokens. The tokens between these and the first token of the next entry are
// for readers that share the entry of the claim.
const (
	tokenBits = 10
	// MaxTokens is how many tokens a claim may reserve: Info.MaxTokens of a store.
	MaxTokens = 1 << (tokenBits - 1)
)

// tokenOf returns the first token of a claim, from the number of its entry.
func tokenOf(order uint64) uint64 { return order << tokenBits }

// idOf returns Label.ID of the claim with this owner: 16 hexadecimal digits of a hash.
func idOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	var digits [16]byte
	hex.Encode(digits[:], sum[:8])
	return string(digits[:])
}

// labelOf returns the label of the entry of c.
func labelOf(c *driver.Claim) Label {
	m := Label{Kind: Mutex, ID: idOf(c.Owner)}
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
	return slices.IndexFunc(queue, func(e Entry) bool { return e.Label.ID == id })
}

// use returns the kind of lock that a name is used for if its queue has an entry of kind k.
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

// mismatch returns driver.ErrMismatch if one of the entries in `before` uses the name for
// another kind of lock than k: see Kind.use. Entries of other programs fit every kind.
func mismatch(name string, before []Entry, k Kind) error {
	for _, e := range before {
		if e.Label.ID != "" && e.Label.Kind.use() != k.use() {
			return fmt.Errorf("%q is a %s, and no %s: %w", name, e.Label.Kind.use(), k.use(), driver.ErrMismatch)
		}
	}
	return nil
}

// blocking returns the entries that block a claim with Label m: the claim waits until one of
// these entries is removed. `before` has all entries that are before the claim's own entry.
// blocking returns nil if the claim holds.
func blocking(before []Entry, m Label) []Entry {
	keepsOut := func(Entry) bool { return true }
	switch m.Kind {
	case Reader:
		keepsOut = func(e Entry) bool { return e.Label.Kind != Reader && !e.Shared }
	case Permit:
		keepsOut = func(e Entry) bool { return e.Label.Kind != Permit }
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

// PermitsOf returns how many permits a name has for a claim with label m. The first entry of
// `before` that contains a number of permits determines the result. If no entry contains such a
// number, m determines the result.
func PermitsOf(before []Entry, m Label) int {
	for _, e := range before {
		if e.Label.Kind == Permit && e.Label.Permits > 0 {
			return e.Label.Permits
		}
	}
	return m.Permits
}
