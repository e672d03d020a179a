package driver

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Lister is implemented by a Backend that can say what is locked. It is for
// people who look: nothing that it tells may decide who holds a lock.
type Lister interface {
	// List walks over what is locked, each name once, in no order. What changes
	// while it runs may be missing, or be shown as it was. It reads a little at a
	// time, and yields as it reads, so that the first come at once.
	//
	// It ends with a pair whose error is not nil if it did not see everything:
	// ErrIncomplete when o.Keys was used up, ctx's error when ctx ended, else the
	// store's. Everything yielded before stands.
	List(ctx context.Context, o ListOptions) iter.Seq2[Record, error]

	// Look returns what is kept of names, in the same order; a free name has a
	// Record without a Kind. The names are not read at the same instant. It costs
	// the store a few commands per name, so a page of rows can be looked at each
	// second. Where only some could be read the error is not nil, the others stand,
	// and those that were not read are KindUnknown.
	Look(ctx context.Context, names ...string) ([]Record, error)

	// Detail returns all there is to know of one name.
	Detail(ctx context.Context, name string) (Detail, error)
}

// Witness is implemented by a Lister that remembers for a while which holds were
// ended by Break. It is for people who watch: that a hold is over is all that they
// see of it.
type Witness interface {
	// Forced returns for each of ended what was given to Break as the reason: "" of
	// one that ended otherwise, or so long ago that the store does not know any more.
	// It may cost the store a command for each; where it fails there may be answers
	// to some. That of an owner whom the store lets hold the name again may be about
	// its hold before.
	Forced(ctx context.Context, ended []Ended) (why []string, err error)
}

// Ended is a hold that is over.
type Ended struct {
	Name  string
	Owner string // as Holder.Owner
}

// ErrIncomplete says that a List has used up its budget before it saw everything.
var ErrIncomplete = errors.New("not everything was looked at")

// ListOptions are the limits of a List. How long it may take is said by its
// context. The zero value lists everything, as fast as the store answers.
type ListOptions struct {
	Prefix string // only names that begin with it

	// Keys is how many keys of the store may be looked at, locks or not: in a
	// store that is shared with other data, most are not. 0 means no bound.
	Keys int

	// Pace is how many commands per second the store may be asked to run on
	// average; those that run inside of scripts count. The first page, of some
	// hundred, comes at once. 0 means no bound.
	Pace int

	// Counters lists bare numbers as well, as KindCounter, where the store cannot
	// tell a latch from any other number.
	Counters bool
}

// Kind is what a name is used for.
type Kind string

// Kinds of locks, as people see them. The empty Kind is a name that is free.
const (
	// KindMutex is an exclusive lock. A fair lock for which nobody waits looks like
	// it.
	KindMutex Kind = "mutex"
	// KindFair is an exclusive lock whose waiters have a queue.
	KindFair Kind = "fair"
	// KindReadWrite is a read-write lock; Hold.Mode says which side.
	KindReadWrite Kind = "read-write"
	// KindSemaphore has leased permits; each is a Hold.
	KindSemaphore Kind = "semaphore"
	// KindLatch is a count-down latch that is not open.
	KindLatch Kind = "latch"
	// KindCounter is a number: in Redis a latch, a plain semaphore, or a semaphore
	// none of whose permits is out. Nothing there tells them apart.
	KindCounter Kind = "counter"
	// KindMulti is Redisson's lock on several values of one name.
	KindMulti Kind = "multi"
	// KindPlain is a string with a unique value, see redishold.Plain.
	KindPlain Kind = "plain"
	// KindTimestamp is a string with the time at which it ends, see
	// redishold.Timestamp.
	KindTimestamp Kind = "timestamp"
	// KindOther is something that is no lock. List leaves it out.
	KindOther Kind = "other"
	// KindUnknown is a name that could not be read. List leaves it out.
	KindUnknown Kind = "unknown"
)

// Record is what a store keeps under one name.
type Record struct {
	Name string
	Kind Kind

	// Holds are the holds, up to some dozens: Held is how many there are. A name
	// without any is listed only where something else is kept of it: waiters, free
	// permits, a count.
	Holds []Hold
	Held  int

	// Waiters are those in the queue of a fair lock, in their order, up to some
	// dozens: Waiting is how many there are.
	Waiters []Queued
	Waiting int

	// Listeners is how many clients listen for a release: about as many processes
	// wait, each with any number of goroutines or threads. Those in a queue are
	// not among them. -1 if the store does not tell.
	Listeners int

	Permits int   // KindSemaphore: how many there are in all
	Free    int   // KindSemaphore: how many are free; negative if more are out than there are
	Count   int64 // KindLatch: what is left to count; KindCounter: the number

	// Remaining is how long the store keeps the record; negative if for ever. The
	// end of a single hold is Hold.Remaining.
	Remaining time.Duration
}

// Hold is a Holder with all that a list shows of it.
type Hold struct {
	Holder // as Inspect returns it, and Break takes it

	Mode Mode
	// Token and Since are of the holder that has it now, or a few seconds ago, where
	// one process hands a lock from holder to holder. They are 0 if the store does not
	// tell; it may begin to tell when a hold is some seconds old.
	Token  uint64        // the fencing token
	Since  time.Duration // how long ago that holder got it
	Client Client
}

// Queued is one waiter in the queue of a fair lock.
type Queued struct {
	Owner     string
	Note      string        // who that is, for people
	Mode      Mode          // how it wants to hold the name
	Remaining time.Duration // after which it loses its place if it is not heard of again
	Client    Client
}

// Client is what the process behind an owner says of itself. Fields that it does
// not say are zero.
type Client struct {
	ID      string // of the client, part of its owners; "" if the owner has none
	Library string // "holdfast", "redisson", or "" for an unknown one
	Program string
	Host    string
	PID     int
	Note    string
	Started time.Time // by its own clock
}

// Detail is a Record with what is known of one name only.
type Detail struct {
	Record
	Token uint64 // the last fencing token drawn for the name; 0 if the store does not keep one per name
	Keys  []Key  // what the store keeps, key by key; none in a store that has no keys

	// Waits are the clients that say that they wait without a place in Waiters, the
	// longest first. Who waits for a few seconds only, and who uses another library,
	// is not among them.
	Waits []ClientWait
}

// ClientWait is a client some of whose goroutines wait for a name.
type ClientWait struct {
	Client Client
	Mode   Mode          // how they want to hold the name
	Waited time.Duration // the longest of them, at least
	Count  int           // how many goroutines wait
}

// Key is one key of a store, as it is there.
type Key struct {
	Name      string
	Type      string        // in the store's words: "hash", "string", "zset", "list"
	Remaining time.Duration // until it ends; negative if it does not
	Value     string        // as text on one or more lines, cut where it is long; what cannot be printed is escaped
}
