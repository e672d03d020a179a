// Package kinds has how each kind of lock is kept in Redis: its keys, its scripts and
// its channel. Fair locks, which have a queue as well, are in package fair.
package kinds

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Kind is what needs rights: a Form, or a Counter.
type Kind interface {
	// Family is what the names of its scripts begin with, up to an underscore: "fair". It
	// is "" where they have none.
	Family() string

	// Channel is where c hears that it is worth while to try again.
	Channel(p layout.Place, c driver.Claim) string
}

// Form is how one kind of lock is kept: its keys, its scripts, its channel. What
// is the same for all kinds stands outside of it, since all scripts answer alike:
//
//	acquire          first token · {0, pttl, holder, holds} · {-1} another kind · {-2, mark}
//	renew            1 · 0
//	release, abandon 1 + receivers · -1 not published · 0
//
// Release takes one key where it can, so that a cluster slot on the move does not
// block it.
type Form interface {
	Kind

	// Acquire asks for c. Its call lies in to, as far as that has room, and so do the
	// next two. ask is what registrations begin with, if a busy answer shall say who
	// the holder is, or "".
	Acquire(to Room, p layout.Place, c driver.Claim, ask string, publish []string) wire.Call
	// Renew extends c.
	Renew(to Room, p layout.Place, c driver.Claim) wire.Call
	// Release ends c.
	Release(to Room, p layout.Place, c driver.Claim, publish []string) wire.Call

	// Abandon is Release for a claim of which an acquire may still be under way:
	// it leaves a mark that lasts for markTTL.
	Abandon(p layout.Place, c driver.Claim, publish []string, markTTL time.Duration) wire.Call

	// Break ends exactly the hold h, as inspection showed it, and leaves others. The
	// mark of its owner says why.
	Break(p layout.Place, h admin.Holder, why, markTTL string, publish []string) wire.Call

	// ReachesAll reports that those who receive the message of a release are all who
	// wait, each counted once.
	ReachesAll() bool
}

// Room is where a call's keys and arguments go: slices of length 0 that a caller
// uses again, or none.
type Room struct{ Keys, Args []string }

// marking is a call of a script that leaves a mark besides: what comes between the
// owner and the channel says what kind of mark. It is sent as source: it is rarely run,
// and a link that hangs must not bring NOSCRIPT when it is back.
func marking(release wire.Call, script *wire.Script, mark string, between ...string) wire.Call {
	return wire.Call{Script: script, Source: true, Keys: append(release.Keys, mark), Args: slices.Insert(release.Args, 1, between...)}
}
