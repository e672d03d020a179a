// Package ordered keeps locks in a store of ordered ephemeral entries, such as etcd or
// ZooKeeper. A claim is an entry in the queue of its name. The store gives each entry a number
// that is larger than those of earlier entries, and removes the entries of a client whose
// session has ended.
//
// The holder is not stored anywhere: it follows from the queue. An exclusive claim holds if no
// entry is before its own. A reader holds if only entries of readers are before its own. A
// claim for one of N permits holds if fewer than N entries are before its own. So claims are
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
	// Open makes a session. The session lives for `ttl` at least, counted from the beginning of
	// the call, and longer if Extend extends it.
	Open(ctx context.Context) (session int64, ttl time.Duration, err error)
	// Extend extends the session: it lives for `ttl` at least, counted from the beginning of
	// the call. An error that is driver.ErrGone says that the session has ended, and all of its
	// entries with it.
	Extend(ctx context.Context, session int64) (ttl time.Duration, err error)
	// Has reports for each given entry of the session whether the entry certainly exists. It
	// finds an entry by Name, Label and Order. An entry for which it reports false may exist
	// all the same. For the zero Entry it reports false.
	Has(ctx context.Context, session int64, entries []Entry) ([]bool, error)
	// Own returns the entries that the session has, or may have, each with Name and
	// Label.ID. The list may be incomplete.
	Own(ctx context.Context, session int64) ([]Entry, error)

	// Enqueue makes an entry for the claim with Label m, unless the claim has one already. The
	// new entry is behind all others in the queue of the name. If `alone` is true, Enqueue
	// makes the entry only if the queue is empty. Enqueue returns the resulting queue, in the
	// order of the entries. If `alone` is false, the first entry may lack the fields that name
	// the holder. The Order of such an entry is 0. If a claim waits long behind such an entry,
	// the Engine calls Queue with `named` set. An error that is driver.ErrGone says that the
	// session has ended, and that the claim has no entry.
	Enqueue(ctx context.Context, session int64, name string, m Label, note string, alone bool) ([]Entry, error)
	// Queue returns the entries of a name in their order, as they are at the time of the call
	// or later. If `last` is not 0, entries with an Order above `last` may be missing. If
	// `named` is false, the first entry may lack the fields that name the holder. An error that
	// is driver.ErrGone says that the session has ended.
	Queue(ctx context.Context, name string, last uint64, named bool) ([]Entry, error)
	// Remove removes the entry of the claim with Label m from the queue of the name. It reports
	// whether the entry existed.
	Remove(ctx context.Context, session int64, name string, m Label) (bool, error)
	// Share makes the entry of a Writer a shared entry, which does not exclude readers: see
	// Entry.Shared. The position of the entry in the queue stays. Share reports whether the
	// entry exists.
	Share(ctx context.Context, session int64, name string, m Label) (bool, error)

	// Watch returns when one of the given entries in the queue of the name is removed or
	// changed. It returns at once if an entry was removed or changed before the call, and also
	// if Watch cannot exclude that. An error other than that of ctx says that the Store cannot
	// watch.
	//
	// Watch may return `gone` as true only if `entries` has one element, and if this entry was
	// certainly removed, or belonged to a Writer and became a shared entry. If `gone` is true,
	// the Engine may grant a mutex to the next claim in the queue without another read of the
	// queue or of that claim's entry. So `gone` must be false in a Store that does not notify a
	// session when another program removes an entry of the session.
	//
	// `before` is the entry directly before the only element of `entries`, or nil. If the Store
	// can watch that entry without another request, Watch calls `early` when the entry may have
	// been removed while Watch still waits.
	Watch(ctx context.Context, name string, entries []Entry, before *Entry, early func()) (gone bool, err error)

	// The other methods serve operators. A method that the store does not support returns an
	// error that is errors.ErrUnsupported.

	// Names yields the names in the store that begin with the prefix, in pages, and each name
	// once. It spends no more than the budget b. Some of the names may be free. If Names did
	// not read all names, it yields an error at the end.
	Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error]
	// FullQueue returns the queue of a name as Queue does, and behind it the claims that wait
	// to enter the queue. Entries may lack what Complete fills in.
	FullQueue(ctx context.Context, name string) ([]Entry, error)
	// Complete fills in Order, Note and Session of an entry. It makes a request only if Order
	// is 0. It sets Label.ID to the ID of the claim, also for a claim of another session. For
	// an entry of another program, Complete sets Label.ID to "". It returns false if the entry
	// does not exist any more.
	Complete(ctx context.Context, e *Entry) (bool, error)
	// Remaining returns for how long a session lives unless it is extended. An error that is
	// driver.ErrGone says that the session has ended.
	Remaining(ctx context.Context, session int64) (time.Duration, error)
	// Show returns what the store keeps for an entry. Key.Remaining is 0: the Engine fills
	// it in.
	Show(e Entry) admin.Key

	// Force removes an entry if the entry has not changed since it was read, and reports
	// whether it has removed the entry. The store keeps `reason` for a limited time. The method
	// Reason finds the reason by the name and by `id`, which is the ID of the claim.
	Force(ctx context.Context, e Entry, id, reason string) (bool, error)
	// Reason returns the reason with which Force removed the entry of a claim. `found` is false
	// if Force did not remove the entry, or if the store does not keep the reason any more.
	Reason(ctx context.Context, name, id string) (reason string, found bool, err error)
	// Forced calls `hint` for each entry that Force removes from now on, in any process. It
	// returns when ctx ends, or when the Store cannot continue.
	Forced(ctx context.Context, hint func(name, id string)) error
}

// Keeper is a Store that supports Claim.AtLeast.
type Keeper interface {
	// Keep gives the entry of the claim with Label m another note, and detaches the entry from
	// the session. The entry keeps its position in the queue. The store removes the entry when
	// the time `rest` has passed. Keep reports whether the session had the entry.
	Keep(ctx context.Context, session int64, name string, m Label, note string, rest time.Duration) (bool, error)
}

// Kind is the kind of lock that a claim asks for.
type Kind string

const (
	// Mutex is an exclusive lock. Entries of other programs are of this kind, too.
	Mutex Kind = "x"
	// Writer is the exclusive side of a read-write lock.
	Writer Kind = "w"
	// Reader is the shared side of a read-write lock.
	Reader Kind = "r"
	// Permit is one of several permits of a semaphore.
	Permit Kind = "p"
)

// Label is the part of a claim that the key of its entry contains.
type Label struct {
	Kind    Kind
	Permits int    // how many permits the name has according to the claim; 0 if the claim has no such number
	ID      string // distinguishes claims: 16 hexadecimal digits, or more for a claim of another session; "" for an entry of another program
}

// Entry is one claim in the queue of a name.
type Entry struct {
	Name    string
	Key     string // distinguishes the entries of a queue
	Order   uint64 // larger than the Order of earlier entries; 0 if it was not read, see Store.Enqueue
	Label   Label
	Note    string // the note given to Enqueue, or the data of another program
	Session int64  // the store removes the entry when this session ends
	// Shared is true for the entry of a Writer that was released while readers still share the
	// entry. A shared entry excludes other claims as the entry of a reader does.
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
	order           uint64        // Order of its entry; 0 until a queue with the entry was read
	held            bool          // a Try was granted
	indeterminate   bool          // a Try had no answer
	withdrawn       bool          // a Try has begun to remove the entry, and does not know whether it is removed
	releasing       bool          // a Release has begun
	keepUntil       clock.Instant // the entry must stay until then, because of Claim.AtLeast; set by Release
	leftToReaders   bool          // the claim was released, and its entry belongs to its readers
	pendingTries    int           // calls of Try under way
	pendingReleases int           // calls of Release under way

	// A reader beside the writer of the same caller has no entry of its own. It shares the
	// writer's entry, which is before the entries of all waiters.
	writer       *claim   // in such a reader: its writer; else nil
	readers      []*claim // in a writer: the readers that share its entry
	readersSoFar uint64   // in a writer: how many readers have shared its entry so far
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
