// Package driver is the interface between Holdfast and a store.
//
// It defines the atomic operations of a store, and nothing else. The queue of waiters,
// lost replies, deadlines, renewals and clean-up are the same for every store, so package
// holdfast has them. A store is therefore small.
//
// Users of locks do not need this package. Authors of a store do, and test their store with
// package drivertest. The names of the tests in drivertest are the specification.
//
// # Rules
//
//  1. Try is idempotent by Claim.Owner: a repetition never makes two grants, two counts or
//     two queue entries. While the owner holds the name, Try grants again, with the same
//     token or a larger one that no other owner has got.
//  2. Renew and Release affect only the owner of the claim. Release is safe for a
//     claim that never arrived. With Claim.Indeterminate and Caps.Tombstones, an
//     earlier Try of the same claim cannot take effect after the Release.
//  3. A store gets and returns durations, not points in time. Outcome.ValidFor counts
//     from the start of the call. The caller keeps the deadline, on its monotonic clock.
//  4. A call returns soon after its context ends, even if the client library ignores
//     contexts. A store never repeats a write itself.
//  5. Wait never misses a release: if the name may have become free since the given
//     Outcome, and is not known to have a holder again, it returns. A broken or restored
//     connection counts as a release.
//  6. Different names are different in the store, also if they differ only in case.
//  7. The core does not call a store for features that Info.Caps does not declare. The
//     core returns errors.ErrUnsupported then.
//  8. An error says what is certain about the call. The table at ErrGone,
//     ErrNotExecuted, ErrRefused, ErrClosed and ErrMismatch defines what the core does.
package driver

import (
	"context"
	"strings"
	"time"
)

// Mode says whether a claim shares its name with others.
type Mode uint8

const (
	// Exclusive allows one holder, alone.
	Exclusive Mode = iota
	// Shared allows any number of holders, but not with an exclusive one.
	Shared
	// Permit allows up to Claim.Permits holders.
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

// Claim is a request to hold a name. The core makes it once and uses it for every try, renewal
// and release. The core only changes TTL, Count, AtLeast, Fixed, Quiet and Indeterminate.
type Claim struct {
	Name string

	// Client is a random UUID, the same for all claims of a Locker. Seq numbers the
	// claims of a client, from 1. Both are always set.
	Client string
	Seq    uint64

	// Owner identifies this claim: two claims are equal if their owners are equal. The core
	// makes it from Client and Seq, as "Client:Seq", and a store keeps it unchanged. A store
	// that consists of several stores may append a text that begins with a dot, to make
	// several claims of one claim. A store must not parse the Owner of a Claim; it uses
	// Client and Seq.
	Owner string

	// Beside is the owner of an exclusive hold of the same caller on the same read-write
	// lock. A Shared claim is granted in spite of that hold.
	Beside string

	Note string // the holder, as a text for people

	// AtLeast is how much longer the name stays taken after a Release, counted from that
	// call; see Caps.AtLeast. 0 means that the Release frees the name. Only Release reads it.
	AtLeast time.Duration

	TTL     time.Duration // how long the store keeps the grant without a renewal
	Count   int           // the hold count, for stores that record it; at least 1
	Tokens  int           // the number of consecutive fencing tokens to reserve; at least 1
	Permits int           // Mode Permit: the number of all permits of a new name; ignored if the store knows the name

	Mode      Mode
	Fair      bool // first come, first served, over all processes
	ReadWrite bool // the name is a read-write lock; Mode says which side

	// NoQueue means that a Try that is not granted leaves no place in a queue of the store,
	// because the caller will not wait. It is set in the claims of a TryAll, and in the claims
	// that a quorum sends to its members.
	NoQueue bool

	// Fixed means that Renew need not extend the lease, because the end of the lease is fixed.
	// Renew only has to find out whether the claim is held, and a read is enough for that. A
	// store may still extend the lease to TTL, as it does without Fixed: with Fixed, TTL is not
	// longer than the rest of the lease.
	Fixed bool

	// Anonymous means that the store writes nothing about the client except Note.
	Anonymous bool

	// Quiet means that the store need not notify waiters of the Release or of the grant. The
	// core sets it for a few milliseconds, while the goroutines of one process take a name one
	// after the other. Without Quiet, each of their releases would make the waiters of other
	// processes ask the store in vain. Only a Releaser with the method Wake gets claims with
	// Quiet.
	Quiet bool

	// Indeterminate means that an earlier Try of this claim ended without an answer and
	// may still arrive. With Caps.Tombstones, Release must then ensure that such a Try is
	// not granted.
	Indeterminate bool
}

// KeptOwner is the text that a store appends to the owner of a released claim whose name
// stays taken, see Caps.AtLeast. No claim has an owner with that text at its end.
const KeptOwner = ".kept"

// Kept reports whether the parameter `owner` ends in KeptOwner. Then nobody holds the name, but
// it is still taken.
func Kept(owner string) bool { return strings.HasSuffix(owner, KeptOwner) }

// Outcome is the result of a Try.
type Outcome struct {
	Granted bool
	Queued  bool // not granted: the store keeps a place for the claim, until Release

	Token    uint64        // granted: the first of Claim.Tokens tokens, which rise from grant to grant; 0 if the store has none
	ValidFor time.Duration // granted: how long the lease lasts, counted from the start of the call; never longer than in the store
	Permits  int           // granted in Mode Permit: the number of all permits; 0 if that number is Claim.Permits, or is unknown

	RetryAfter time.Duration // not granted: without a notification, the next try comes after this time at the latest; 0 if unknown
	Holder     string        // not granted: the holder, as a text for people; "" if unknown
	HeldFor    time.Duration // not granted: how long that holder has held the lock; 0 if unknown
	Kept       bool          // not granted: nobody holds the name, but it stays taken for RetryAfter (Caps.AtLeast); Holder is the last holder
	Ahead      any           // not granted: what the store found; it is passed to Waiter.Wait

	Turn bool // of Wait, not granted: the clients that wait take turns, and it is this client's turn
}

// Renewal is the result for one claim of a Renew.
type Renewal struct {
	// ValidFor is how long the lease lasts after the renewal, counted from the start of the
	// Renew call. It may be shorter than the time for which the store keeps the lease, but
	// never longer. Read it only if Err is nil.
	ValidFor time.Duration

	// Err is nil if the claim was renewed, and ErrGone if it is lost. With another error
	// the claim is held until its lease ends.
	Err error
}

// Backend is a store of locks. Several goroutines may call its methods at once. A Backend needs
// resources only for calls that run and for open Waiters, so it has no Close.
type Backend interface {
	// Info describes the store. It does no I/O and always returns the same value.
	Info() Info

	// Try makes one attempt to take c.Name for c.Owner. It does not wait for another
	// holder.
	Try(ctx context.Context, c Claim) (Outcome, error)

	// Renew extends held claims to their TTL, and records their Count. Each claim has its own
	// TTL: if the end of a lock is fixed, the last renewal has a shorter TTL than the grant, so
	// that the lock does not last beyond its end. No renewal shortens a lease. With
	// Info.SessionTTL it also extends claims in a queue of the store. It uses as few calls to
	// the store as possible. It never restores a claim that is gone. It returns one Renewal for
	// each claim, in the same order. If Renew returns an error, it has no answer for any of the
	// claims.
	Renew(ctx context.Context, cs []Claim) ([]Renewal, error)

	// Release ends a claim that is held, queued or in an unknown state, and removes it from the
	// store. It returns nil if it ended the claim, and ErrGone if the store had nothing of the
	// claim.
	Release(ctx context.Context, c Claim) error

	// Waiter returns a Waiter for c, for use after a Try that was not granted. It does no
	// I/O; the first Wait may do I/O.
	Waiter(c Claim) Waiter
}

// Waiter waits until another try of a claim may succeed. One goroutine at a time may use
// it.
type Waiter interface {
	// Wait returns when another Try may succeed. The parameter `last` is the Outcome of the
	// last Try. If the name may have become free since that Try, Wait returns at once, unless it
	// knows that another claim has the name again. If not, it returns when the name may have
	// become free. It may return early, but must not return late. It returns
	// ctx's error when ctx ends, and another error if the store cannot notify for now; the
	// caller then sleeps.
	//
	// A store may grant a waiting claim by itself, for example from a queue in the store at a
	// release. Wait may then return that grant. Its ValidFor counts from the start of the last
	// Try, because the message of the store may be late. The lease may be shorter than the TTL
	// of the claim; a renewal or another Try extends it. If Wait misses a grant, the grant is
	// not lost: the next Try is granted again. If Wait returns no grant, the Outcome is zero,
	// and the caller tries again.
	Wait(ctx context.Context, last Outcome) (Outcome, error)

	// Close releases the resources of Wait. It does not wait for the store.
	Close()
}

// Info describes a store.
type Info struct {
	Name   string // "redis" or "memory", for example; for logs, metrics and error messages
	Layout string // the layout to which Caps apply, for error messages; "" for the default layout of the store
	Caps   Caps

	// SessionTTL is set if the store has one session for all claims of a client. It is how long
	// the store keeps these claims without a renewal. A renewal of any of them keeps all of
	// them. So the core releases each claim when its hold ends, also after a loss. 0 means that
	// each claim ends by itself after its TTL.
	SessionTTL    time.Duration
	SessionOption string // the option that sets SessionTTL, for messages: "etcdhold.Options.TTL"

	// PlaceTTL is how long a Fair claim keeps its place in a queue of the store. The time
	// begins with the last Try of the claim, or with the end of the holder's lease if that end
	// is later. If the caller gives up and Release has no answer, the core repeats the Release
	// until the place has ended. 0 means that a claim keeps its place for at most its TTL.
	PlaceTTL time.Duration

	MinTTL  time.Duration // the shortest TTL; 0 means no limit
	MaxTTL  time.Duration // the longest TTL; 0 means no limit
	TTLStep time.Duration // the store rounds TTLs up to a multiple of it; 0 means no rounding
	MaxName int           // the longest name in bytes; 0 means no limit

	// Recheck is the longest time between two tries of a waiter that gets no notification. A
	// store may set more than the default of one second if it loses no notifications, and if it
	// keeps a waiting claim for longer than Recheck. 0 means the default.
	Recheck time.Duration

	// MaxTokens is the largest number of tokens that a claim may reserve: Claim.Tokens is
	// never larger. A store without blocks of tokens has 1; its locks are not passed on
	// between goroutines, because each holder needs its own token. 0 means no limit.
	MaxTokens int
}

// Caps declares the features of a store beyond an exclusive lock. The zero Caps means a
// plain mutex.
type Caps struct {
	Shared       bool // Claim.ReadWrite and Mode Shared
	Permits      bool // Mode Permit
	Latches      bool // count-down latches; the Backend is a Latcher
	Fair         bool // Claim.Fair
	Fencing      bool // Outcome.Token rises with every grant
	Wakes        bool // the store notifies waiters; otherwise they poll
	ExpiresAlone bool // a grant ends after its TTL, also if its process is dead or cut off
	Counts       bool // Claim.Count is recorded

	// Tombstones means that the store refuses a late Try. A Try is late if it arrives
	// after a Release of the same claim with Claim.Indeterminate. A late Try gets ErrGone
	// or another refusal. The store remembers such a claim at least for its TTL.
	//
	// Without Tombstones, the store may execute the two calls in the wrong order: a caller
	// sends a Try, its context ends, and it sends a Release, but the store executes the Release
	// first. The name is then taken until the lease ends. The core makes this rare, because it
	// does not pass the context of a caller to Try, but a separate context with a short
	// timeout. If the caller gives up first, the Try continues in the background, and the claim
	// is released after its answer.
	Tombstones bool

	// AtLeast means that Release supports Claim.AtLeast, for Mode Exclusive without Fair and
	// without ReadWrite. All other claims have an AtLeast of 0.
	//
	// Such a Release ends the claim, but the name stays taken until the time in Claim.AtLeast
	// has passed: for all clients, including the one that released it, and also if the lease
	// would have ended before or after that. For its owner the claim has ended: Renew returns
	// ErrGone, and a Try finds the name taken. Release notifies waiters, which try again and
	// get the new RetryAfter. The store may or may not notify them at the end of the time.
	//
	// The core knows the time of the grant. It sets AtLeast of each Release to the time that is
	// left when it sends the call, so a store need not remember the time of a grant. A Release
	// of a claim that has ended changes nothing, and returns nil or ErrGone: it does not
	// lengthen the time for which the name stays taken, whatever its AtLeast is.
	//
	// If a client dies or is cut off, the name becomes free after the TTL of the claim: only
	// Release keeps the name taken.
	//
	// For operators such a name has a hold whose owner ends in KeptOwner.
	//
	// Package memhold, the databases, etcd, and Redis except with the layout Timestamp
	// support it.
	AtLeast bool
}
