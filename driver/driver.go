// Package driver is the seam between Holdfast and a store.
//
// It states what a store must be able to do atomically, and nothing else.
// Waiting in turn, lost replies, deadlines, renewal and clean-up are subtle and
// the same for every store; they stand above this seam, once, in package
// holdfast. An adapter is therefore small, and uses its store the way the store
// is meant to be used.
//
// Users of locks need nothing from this package. Authors of a store do, and
// prove their work with package drivertest, whose test names are the
// specification.
//
// # Rules
//
//  1. Try is idempotent by Claim.Owner: repeated, it never makes two grants, two
//     counts or two queue entries. While the owner holds, Try grants again, with
//     the same token or a larger one that nobody else was given.
//  2. Renew and Release touch the claim's own owner and nobody else's. Release
//     is safe for a claim that never arrived. With Claim.Indeterminate set it cannot
//     be overtaken by an earlier Try of the same claim, where Caps.Tombstones says so.
//  3. Only durations cross the seam. Outcome.ValidFor counts from the start of
//     the call; the caller keeps the deadline, on its monotonic clock.
//  4. A context ends a call promptly, even where the client library below
//     ignores contexts. An adapter never repeats a write by itself.
//  5. Wait never misses a change: if the state changed after the Outcome that it
//     is given, it returns. A broken or restored link counts as a change.
//  6. Names are injective and case-exact on the store.
//  7. What Info.Caps does not declare is refused above the seam with
//     errors.ErrUnsupported; the adapter is never called with it.
//  8. An error says what is known of the call. ErrGone, ErrNotExecuted, ErrRefused,
//     ErrClosed and ErrMismatch are declared together, with the table of what
//     follows from them.
package driver

import (
	"context"
	"time"
)

// Mode is the way in which a claim shares its name with others.
type Mode uint8

const (
	// Exclusive admits one holder and nobody beside it.
	Exclusive Mode = iota
	// Shared admits any number of holders and no exclusive one.
	Shared
	// Permit admits up to Claim.Permits holders.
	Permit
)

// String returns the mode in lower case, as logs and metrics show it.
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	case Permit:
		return "permit"
	default:
		return "unknown"
	}
}

// Claim is one attempt to hold a name. The core makes it once and reuses it for
// every try, renewal and release, changing only TTL, Count, AtLeast and Indeterminate.
type Claim struct {
	Name string

	// Client is who makes the claim: a random UUID, the same for all claims of a Locker.
	// Seq numbers the claims of a client, from 1. Both are set for every claim.
	Client string
	Seq    uint64

	// Owner is unique to this claim; equality of claims is equality of owners. The core
	// derives it from the two before, as "Client:Seq", once for each claim, and a store
	// keeps it as it is. A store that wraps others may append to it, beginning with a
	// dot, to make several claims of one. No store takes the Owner of a Claim apart:
	// that is what Client and Seq are for.
	Owner string

	// Beside is the owner of an exclusive hold on the same read-write lock, by
	// the same caller: a Shared claim is granted beside it, and not kept out.
	Beside string

	Note string // its holder, for people

	// AtLeast says for how long the name stays taken after the grant, also where the
	// claim is released before; see Caps.AtLeast. 0 means that a release frees the name.
	AtLeast time.Duration

	TTL     time.Duration // how long the store keeps the grant without a renewal
	Count   int           // the hold count to record, for stores that show one; at least 1
	Tokens  int           // how many consecutive fencing tokens to reserve; at least 1
	Permits int           // Mode Permit: how many holders the name admits, if the store does not know yet

	Mode      Mode
	Fair      bool // first come, first served, over all processes
	ReadWrite bool // the name is a read-write lock, of which Mode says the side

	// NoQueue says that a Try that is not granted keeps no place for the claim in a
	// queue of the store: mostly as nobody is going to wait for it. The claims of a
	// TryAll, and those at the members of a quorum, have it set.
	NoQueue bool

	// Anonymous says that nothing is to be written about who the client is but Note.
	Anonymous bool

	// Indeterminate says that an earlier Try of this claim ended without an answer
	// and may still arrive. With Caps.Tombstones Release then has to make sure that it
	// finds nothing to grant.
	Indeterminate bool
}

// Outcome is the answer to a Try.
type Outcome struct {
	Granted bool
	Queued  bool // not granted: the store keeps a place for the claim, until Release

	Token    uint64        // granted: the first of Claim.Tokens, larger for every later grant; 0 if the store has none
	ValidFor time.Duration // granted: a lower bound of the lease, counted from the start of the call
	Permits  int           // granted in Mode Permit: how many the name has in all; 0 if that is Claim.Permits, or not known

	RetryAfter time.Duration // not granted: the latest moment to try again without being woken; 0 if unknown
	Holder     string        // not granted: the holder of the name, for people; "" if unknown
	HeldFor    time.Duration // not granted: for how long that holder has held it; 0 if unknown
	Ahead      any           // not granted: what the store saw; passed to Waiter.Wait
}

// Renewal is the answer to one claim of a Renew.
type Renewal struct {
	// ValidFor is a lower bound of the renewed lease, counted from the start of
	// the call. It means something only where Err is nil.
	ValidFor time.Duration

	// Err is nil when the claim was renewed, ErrGone when it is lost. Any other
	// error leaves it held, until its lease ends.
	Err error
}

// Backend is a store of locks. Its methods may be called from several
// goroutines at once. A Backend owns nothing that outlives its calls and
// Waiters, so it has no Close.
type Backend interface {
	// Info describes the store. It does no I/O and always answers the same.
	Info() Info

	// Try makes one attempt to hold c.Name for c.Owner. It answers at once and
	// never waits for another holder.
	Try(ctx context.Context, c Claim) (Outcome, error)

	// Renew extends held claims to their TTL, with Info.SessionTTL also claims in a
	// queue of the store, and records their Holds, together as far as the store allows. It never brings back a claim
	// that is gone. The answer has one Renewal per claim, in the same order; the
	// error is non-nil only where no claim has an answer of its own.
	Renew(ctx context.Context, cs []Claim) ([]Renewal, error)

	// Release ends a claim that is held, queued or unknown, and leaves no trace
	// of it. It returns nil if it ended the claim, and ErrGone if there was nothing
	// left of it.
	Release(ctx context.Context, c Claim) error

	// Waiter prepares to wait for c after a Try that was not granted. It does no
	// I/O; the first Wait may.
	Waiter(c Claim) Waiter
}

// Waiter waits for a claim's turn. It is used by one goroutine at a time.
type Waiter interface {
	// Wait returns when another Try is worth while: at once if the state may have
	// changed since last, the Outcome of the last Try, else when it changes. It may
	// return early and must not return late. It returns ctx's error when ctx ends,
	// and another error when this store cannot wake for now; the caller then sleeps.
	//
	// A store may grant a claim on its own while the claim waits, as a queue in the
	// store can do at a release. Wait may then return that grant. Its ValidFor counts
	// from the start of the Try that last came from: the message may be late. It may
	// be shorter than the claim's TTL; a renewal, or another Try, extends it to that.
	// A grant that Wait does not know of is not lost: the next Try is granted again.
	// Any other Outcome is the zero one, and says nothing but: try again.
	Wait(ctx context.Context, last Outcome) (Outcome, error)

	// Close frees what Wait set up. It does not block on the store.
	Close()
}

// Info describes a store.
type Info struct {
	Name string // "redis", "memory": for logs, metrics and error messages
	Caps Caps

	// SessionTTL is how long the store keeps the claims of a client that has gone
	// silent, where it keeps them all together: a claim then lives for as long as any
	// other of the client is renewed, and is released when its holder does not need it
	// any more, also after a loss. 0 means that each claim ends by itself, after its
	// TTL.
	SessionTTL    time.Duration
	SessionOption string // what sets SessionTTL, for messages: "etcdhold.Options.TTL"

	MinTTL  time.Duration // the shortest TTL that the store keeps; 0 means no bound
	MaxTTL  time.Duration // the longest; 0 means no bound
	TTLStep time.Duration // TTLs are rounded up to a multiple of it; 0 means none
	MaxName int           // the longest name in bytes; 0 means no bound

	// Recheck is for how long a waiter may sleep before the claim is tried again,
	// although nothing woke it and no RetryAfter has passed. It is for a store whose
	// wake-ups do not get lost, and where a claim that waits is kept for longer. 0
	// means a second.
	Recheck time.Duration

	// MaxTokens is how many tokens one claim may reserve: Claim.Tokens is never more.
	// A store without blocks of tokens says 1; its locks are not passed on between
	// goroutines, since each holder has a token of its own. 0 means no bound.
	MaxTokens int
}

// Caps declares what a store can do beyond an exclusive lock. The zero Caps is
// an honest plain mutex.
type Caps struct {
	Shared       bool // ReadWrite, with Mode Shared
	Permits      bool // Mode Permit
	Latches      bool // count-down latches, as a Latcher
	Fair         bool // Claim.Fair
	Fencing      bool // Outcome.Token rises with every grant
	Wakes        bool // Wait is woken by the store, not by polling
	ExpiresAlone bool // a grant ends after its TTL even if its process is dead or cut off
	Counts       bool // Claim.Count is recorded

	// Tombstones says that a Try which arrives after a Release of its claim, with
	// Indeterminate set, is not granted: an error that is ErrGone says so, or a refusal.
	// The store remembers the claim for as long as its TTL at least.
	//
	// Where a store cannot do that, a Try that is cut off by its context can be executed
	// after the Release that follows, and leaves the name taken until the lease ends.
	// The core makes that rare: no context of a caller cuts a Try off. It runs under a
	// short one of its own, and if the caller gives up first, it is left to the
	// background, and released when it has answered.
	Tombstones bool

	// AtLeast says that Release honours Claim.AtLeast, for Mode Exclusive without
	// ReadWrite; other claims never have it set.
	//
	// A Release before that time has passed since the grant ends the claim, and leaves
	// the name taken until it has: foreverybody, the client that released it
	// included, and also where the lease would have ended before. Release counts from the
	// grant that the store made first for the claim, and reads AtLeast of the claim
	// that it is given. It may be repeated, which changes nothing; the answer is then
	// nil or ErrGone. The claim is over for its owner: a Renew is answered ErrGone, and
	// a Try finds the name taken. Waiters are woken by the Release, to try again
	// and be refused with the RetryAfter that is true now; the end of the time wakes
	// them only where the store can do that.
	//
	// A client that dies, or is cut off, frees the name after its TTL, and not after
	// AtLeast: it is Release that leaves the name taken. Later than AtLeast after the
	// grant Release frees the name at once.
	//
	// Package memhold has it. A quorum has not: it releases what a minority granted to
	// a claim that was refused, and that must not stay taken. Nor has Redis so far: its
	// layouts, which it shares with other libraries, do not keep when a lock was
	// granted, so a release cannot know what is left.
	AtLeast bool
}
