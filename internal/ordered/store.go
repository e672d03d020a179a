// Package ordered keeps locks in a store of ordered ephemeral entries, as etcd and
// ZooKeeper are: a claim is an entry in the queue of its name, the store gives each entry
// a number that rises, and it drops the entries of a client whose session has ended.
//
// The holder is not written anywhere: it follows from the queue. An exclusive claim holds
// when no entry is before its own, a reader when none but readers are, one of N permits
// when fewer than N are. So claims are granted in the order of their entries, and the
// number of an entry is the fencing token of its claim.
//
// An Engine has one session for all of its claims. It keeps no goroutine: a caller that tries
// or renews a claim extends the session.
package ordered

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Store is what the Engine needs of a store. Its errors are those of package driver. A
// method whose context has ended returns promptly; what it was asked to do may be done
// later all the same.
type Store interface {
	// Open makes a session, which lives for ttl from now, and longer if it is extended.
	Open(ctx context.Context) (session int64, ttl time.Duration, err error)
	// Extend has the session live for ttl from now. An error that is driver.ErrGone says
	// that it has ended, and all of its entries with it.
	Extend(ctx context.Context, session int64) (ttl time.Duration, err error)
	// Has says of each of these entries of the session, by Name, Mark and Order, whether it
	// is there for certain. Another may be there all the same. Name may be "".
	Has(ctx context.Context, session int64, entries []Entry) ([]bool, error)
	// Own returns the entries that the session has, or may have, each with Name and Mark.ID.
	// One that is missing may be there all the same.
	Own(ctx context.Context, session int64) ([]Entry, error)

	// Enqueue makes an entry for m in the queue of name, behind all others, unless there
	// is one already. With alone set it makes one only if the queue is empty. It returns
	// the queue in its order, as it is then. Unless alone is set, the first may be without
	// what shows the holder: its Order is 0 then, and Queue is asked for that when it is
	// worth a call. An error that is driver.ErrGone says that the session has ended, and
	// that there is no entry.
	Enqueue(ctx context.Context, session int64, name string, m Mark, note string, alone bool) ([]Entry, error)
	// Queue returns the queue of name in its order, as it is at the time of the call or
	// later. Unless last is 0, entries with a higher Order may be missing. Unless named is
	// set, the first may be without what shows the holder. An error that is driver.ErrGone
	// says that the session has ended.
	Queue(ctx context.Context, name string, last uint64, named bool) ([]Entry, error)
	// Remove takes the entry of m out of the queue of name. It reports whether there was
	// one.
	Remove(ctx context.Context, session int64, name string, m Mark) (bool, error)
	// Share makes an entry of a Writer one that readers pass, and leaves it where it is
	// in the queue: Entry.Shared. It reports whether there is one.
	Share(ctx context.Context, session int64, name string, m Mark) (bool, error)

	// Watch returns when one of these entries in the queue of name is removed or changed,
	// at once if it was before, and when it is not sure that none was. Another error than
	// that of ctx says that it cannot watch.
	//
	// gone says for certain that the only one of them was removed; that of a Writer may be
	// shared since. A waiter for a mutex that knows itself alone with the holder does not
	// read the queue then, nor whether its own entry is there still. So only a Store says
	// it that notifies of entries that somebody else removes.
	//
	// before is the entry before the only one of entries, or nil. A Store that can watch
	// it without another request calls early when it is removed, before Watch returns.
	Watch(ctx context.Context, name string, entries []Entry, before *Entry, early func()) (gone bool, err error)
}

// Keeper is a Store that supports Claim.AtLeast.
type Keeper interface {
	// Keep gives the entry of m another note, and leaves it where it is in the queue, for
	// rest from now on, as that of no session. It reports whether the session had it.
	Keep(ctx context.Context, session int64, name string, m Mark, note string, rest time.Duration) (bool, error)
}

// Kind is what the claim of an entry asks for.
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

// Mark is what an entry says of the claim that it was made for.
type Mark struct {
	Kind    Kind
	Permits int    // Kind Permit: how many the name has, as far as the claim knows
	ID      string // distinguishes claims: 16 hexadecimal digits, or more for one of another session; "" for another program's
}

// Entry is a place in the queue of a name.
type Entry struct {
	Name    string
	Key     string // distinguishes the entries of a queue
	Order   uint64 // rises with each entry; may be 0 in a queue but for the claim that asks
	Mark    Mark
	Note    string // as Enqueue was given it, or what another program keeps there
	Session int64  // with which it ends
	// Shared says of a Writer that it has left, and that readers who came beside it
	// are still there: it keeps out whom a reader keeps out.
	Shared bool
}

// place is where a claim stands.
type place struct{ name, id string }

// claim is what the Engine knows of a claim that has an entry, or may have one.
type claim struct {
	place
	mark    Mark
	session int64
	client  string        // Claim.Client
	seq     uint64        // Claim.Seq
	order   uint64        // of its entry; 0 while nobody has seen it
	held    bool          // a Try was granted
	unsure  bool          // a Try had no answer
	over    bool          // a Release has begun
	until   clock.Instant // and is to keep the name so long
	left    bool          // its entry is that of its readers
	tries   int           // calls of Try under way
	calls   int           // and of Release

	// A reader beside the writer of the same caller has no entry, but stands on that of
	// the writer, and so before all waiters.
	writer  *claim
	readers []*claim
	beside  uint64 // how many readers there were so far
}

// readersLeft is how many readers stand on the entry of k that were not released.
func (k *claim) readersLeft() (n int) {
	for _, r := range k.readers {
		if !r.over {
			n++
		}
	}
	return n
}

// needed says that the entry of k is not to be swept.
func (k *claim) needed(now clock.Instant) bool {
	return !k.over || k.calls > 0 || now < k.until || k.readersLeft() > 0
}

// gone is the answer for a claim of which nothing is left.
func gone(reason driver.Reason, detail string) error {
	return &driver.GoneError{Reason: reason, Detail: detail}
}

// none is the answer where nothing is known of a claim.
func none() error {
	return gone(driver.ReasonExpired, "nothing of the claim is left: its session has ended, or it was released")
}
