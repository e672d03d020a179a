// Package kinds has the kinds of lock in Redis: the keys, the scripts and the channel of
// each. Fair locks, which also have a queue, are in package fair.
package kinds

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Kind is a kind of lock, or of counter: a Form or a Counter. The permissions of the user are
// checked for each Kind.
type Kind interface {
	// Family returns the part before the underscore in the names of the scripts of this Kind,
	// such as "fair" for fair_acquire. It returns "" if the names have no underscore.
	Family() string

	// Channel returns the channel on which a waiter for c is notified that it should try
	// again.
	Channel(k layout.Keys, c driver.Claim) string
}

// Form is one kind of lock: its keys, its scripts and its channel. The callers of a Form treat
// all kinds alike, because the scripts of all kinds have the same replies:
//
//	acquire          first token · {0, pttl, holder, holds} · {-1} another kind · {-2, tombstone}
//	renew            1 · 0 · -1 another kind
//	release, abandon 1 + receivers · -1 not published · 0
//
// The script of Release has only one key if possible, because a migrating slot of a cluster
// refuses calls with several keys.
type Form interface {
	Kind

	// Acquire returns the call that acquires c. The call uses the slices of buf if they have
	// room. The calls of Renew and Release use buf in the same way.
	Acquire(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call
	// Renew returns the call that extends the lease of c.
	Renew(buf Buffers, k layout.Keys, c driver.Claim) wire.Call
	// Release returns the call that ends the hold of c.
	Release(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call

	// Abandon returns the call that ends c if the call of Acquire may still arrive at the
	// server. So the call of Abandon also sets a tombstone with the given TTL.
	Abandon(k layout.Keys, c driver.Claim, publish []string, tombstoneTTL time.Duration) wire.Call

	// Force returns the call that ends the hold h, unless the hold has changed since the caller
	// read it. The call also sets a tombstone, which has the reason for the owner.
	Force(k layout.Keys, h admin.Holder, reason, tombstoneTTL string, publish []string) wire.Call

	// ReachesAll reports whether every waiting client receives the message of a release, and
	// has one subscription for it.
	ReachesAll() bool
}

// Buffers has two slices of length 0, for the keys and for the arguments of a call, so that a
// caller can reuse their memory. Both slices may be nil.
type Buffers struct{ Keys, Args []string }

// withTombstone returns the call of `script`, which does the same as the call `release` and also
// sets a tombstone. The parameter `between` has the arguments between the owner and the channel.
// The call has the source of the script, because the server may not know a script that is rarely
// used. Otherwise the reply could be NOSCRIPT, and the call would need another round trip, at a
// time when the link to the server may be bad.
func withTombstone(release wire.Call, script *wire.Script, tombstone string, between ...string) wire.Call {
	return wire.Call{Script: script, Source: true, Keys: append(release.Keys, tombstone), Args: slices.Insert(release.Args, 1, between...)}
}
