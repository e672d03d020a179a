// Package ordered keeps locks in a store of ordered ephemeral entries, such as etcd or
// ZooKeeper. A claim is an entry in the queue of its name. The store gives each entry a number
// that is larger than those of earlier entries, and removes the entries of a client whose
// session has ended.
//
// The holder is not stored anywhere: it follows from the queue. An exclusive claim holds if no
// entry is before its own. A reader holds if only entries of readers are before its own. A
// claim of one of N permits holds if fewer than N entries are before its own. So claims are
// granted in the order of their entries, and the number of an entry determines the fencing
// token of its claim.
//
// An Engine has one session for all of its claims. It has no goroutine that extends the
// session: the calls that try or renew a claim extend it.
package ordered

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Store is what the Engine needs of a store. Its errors are those of package driver. A method
// returns promptly when its context ends; the store may still execute the call later.
type Store interface {
	// Open makes a session, which lives for ttl from now, and longer if it is extended.
	Open(ctx context.Context) (session int64, ttl time.Duration, err error)
	// Extend makes the session live for ttl from now. An error that is driver.ErrGone says
	// that the session has ended, and all of its entries with it.
	Extend(ctx context.Context, session int64) (ttl time.Duration, err error)
	// Has reports for each of these entries of the session whether it certainly exists. It
	// finds an entry by Name, Label and Order. An entry for which it reports false may
	// exist all the same. For the zero Entry it reports false.
	Has(ctx context.Context, session int64, entries []Entry) ([]bool, error)
	// Own returns the entries that the session has, or may have, each with Name and
	// Label.ID. The list may be incomplete.
	Own(ctx context.Context, session int64) ([]Entry, error)

	// Enqueue makes an entry for m in the queue of name, behind all others, unless m has an
	// entry already. If the parameter alone is true, it makes the entry only if the queue is
	// empty. It returns the queue after that, in its order. Unless alone is true, the first
	// entry may lack the fields that name the holder: then its Order is 0, and the Engine
	// calls Queue with named set if the wait is long. An error that is driver.ErrGone says
	// that the session has ended, and that there is no entry.
	Enqueue(ctx context.Context, session int64, name string, m Label, note string, alone bool) ([]Entry, error)
	// Queue returns the queue of name in its order, as it is at the time of the call or
	// later. Unless the parameter last is 0, entries with a higher Order than last may be
	// missing. Unless the parameter named is true, the first entry may lack the fields that
	// name the holder. An error that is driver.ErrGone says that the session has ended.
	Queue(ctx context.Context, name string, last uint64, named bool) ([]Entry, error)
	// Remove removes the entry of m from the queue of name. It reports whether there was
	// one.
	Remove(ctx context.Context, session int64, name string, m Label) (bool, error)
	// Share turns the entry of a Writer into one that does not exclude readers, in its old
	// position in the queue: see Entry.Shared. It reports whether there is such an entry.
	Share(ctx context.Context, session int64, name string, m Label) (bool, error)

	// Watch returns when one of these entries in the queue of name is removed or changed. It
	// returns at once if that has happened already, and also if it cannot be sure that
	// nothing has happened. An error other than that of ctx says that the Store cannot watch.
	//
	// gone is true if entries has one element, and if this entry was certainly removed, or
	// was that of a Writer and became a shared one. After that, a waiter for a mutex whose
	// entry is directly behind that of the holder reads neither the queue nor its own entry
	// again. So only a Store that notifies a session when another program removes the
	// entries of the session may return true.
	//
	// The parameter before is the entry before the only one of entries, or nil. If the Store
	// can watch that entry without another request, it calls `early` when that entry is
	// removed while Watch still waits.
	Watch(ctx context.Context, name string, entries []Entry, before *Entry, early func()) (gone bool, err error)

	// The other methods serve operators. One that the store does not support returns an error
	// that is errors.ErrUnsupported.

	// Names yields pages of the names in the store that begin with prefix, each name once,
	// within the budget b. Some of the names may be free. It ends with an error if it did not
	// read all names.
	Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error]
	// FullQueue returns the queue of name as Queue does, and behind it the claims that wait
	// to enter it. Entries may lack what Complete fills in.
	FullQueue(ctx context.Context, name string) ([]Entry, error)
	// Complete fills in Order, Note and Session of e. It calls the store only if Order is 0.
	// It sets Label.ID to the ID of the claim, also if another session has the claim, and to
	// "" if the entry is one of another program. It reports whether the entry still exists.
	Complete(ctx context.Context, e *Entry) (bool, error)
	// Remaining returns for how long a session lives unless it is extended. An error that is
	// driver.ErrGone says that the session has ended.
	Remaining(ctx context.Context, session int64) (time.Duration, error)
	// Show returns what the store keeps for an entry. Key.Remaining is 0: the Engine fills
	// it in.
	Show(e Entry) admin.Key

	// Force removes e if e has not changed since it was read. The store keeps reason for a
	// limited time, with id, which is the ID of the claim. It reports whether it removed e.
	Force(ctx context.Context, e Entry, id, reason string) (bool, error)
	// Reason returns the reason with which Force removed the entry of a claim. found is
	// false if Force did not remove it, or if the store does not keep that reason any more.
	Reason(ctx context.Context, name, id string) (reason string, found bool, err error)
	// Forced calls hint for each entry that Force removes from now on. It returns when ctx
	// ends, or when the Store cannot continue.
	Forced(ctx context.Context, hint func(name, id string)) error
}

// Keeper is a Store that supports Claim.AtLeast.
type Keeper interface {
	// Keep gives the entry of m another note and detaches it from the session: the entry
	// stays in its position in the queue, and ends when the time rest has passed. It
	// reports whether the session had the entry.
	Keep(ctx context.Context, session int64, name string, m Label, note string, rest time.Duration) (bool, error)
}

// Kind is the kind of lock that a claim asks for.
type Kind string

const (
	// Mutex is an exclusive lock. Entries of other programs are of this kind, too.
	Mutex Kind = "x"
	// Writer is the exclusive side of a read-write lock.
	Writer Kind = "w"
	// Reader is its shared side.
	Reader Kind = "r"
	// Permit is one of several permits of a semaphore.
	Permit Kind = "p"
)

// Label is the part of a claim that the key of its entry contains.
type Label struct {
	Kind    Kind
	Permits int    // Kind Permit: how many permits the name has, as far as the claim knows
	ID      string // distinguishes claims: 16 hexadecimal digits, or more for a claim of another session; "" for one of another program
}

// Entry is one claim in the queue of a name.
type Entry struct {
	Name    string
	Key     string // distinguishes the entries of a queue
	Order   uint64 // larger than that of earlier entries; 0 if it was not read, see Store.Enqueue
	Label   Label
	Note    string // the note given to Enqueue, or the data of another program
	Session int64  // the store removes the entry when this session ends
	// Shared is true for the entry of a Writer that was released while readers beside it
	// still hold. Such an entry excludes the claims that an entry of a reader excludes.
	Shared bool
}

// claimKey identifies a claim: the name of its lock, and Label.ID.
type claimKey struct{ name, id string }

// claim is what the Engine knows about a claim that has an entry, or may have one.
type claim struct {
	claimKey
	label           Label
	session         int64
	client          string        // Claim.Client
	seq             uint64        // Claim.Seq
	order           uint64        // of its entry; 0 until a queue with the entry was read
	held            bool          // a Try was granted
	indeterminate   bool          // a Try had no answer
	releasing       bool          // a Release has begun
	keepUntil       clock.Instant // the name stays taken until then: Claim.AtLeast
	leftToReaders   bool          // it was released, and its entry belongs to its readers
	pendingTries    int           // calls of Try under way
	pendingReleases int           // calls of Release under way

	// A reader beside the writer of the same caller has no entry of its own. It shares that
	// of the writer, which is before those of all waiters.
	writer       *claim
	readers      []*claim
	readersSoFar uint64 // how many readers there were so far
}

// activeReaders returns how many readers share the entry of k and were not released.
func (k *claim) activeReaders() (n int) {
	for _, r := range k.readers {
		if !r.releasing {
			n++
		}
	}
	return n
}

// needed reports whether a claim still needs the entry of k, so that sweep must not remove it.
func (k *claim) needed(now clock.Instant) bool {
	return !k.releasing || k.pendingReleases > 0 || now < k.keepUntil || k.activeReaders() > 0
}

// gone returns the error for a claim whose entry does not exist any more.
func gone(reason driver.Reason, detail string) error {
	return &driver.GoneError{Reason: reason, Detail: detail}
}

// none returns the error for a claim that the Engine does not know.
func none() error {
	return gone(driver.ReasonExpired, "nothing of the claim is left: its session has ended, or it was released")
}
