package admin

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// RemainingUnknown is the value of a field Remaining if the lease or the record has an end that
// the store does not report.
const RemainingUnknown = time.Duration(math.MinInt64)

// Record is the state of one name in the store.
type Record struct {
	Name string
	Kind Kind

	// Holds are the holds, at most some dozens; Holders is the number of all holds. If nobody
	// holds a name, but it stays taken after its release, Holders is 0 and Holds has one entry,
	// see Holder.Kept. List yields a name without holds only if the store has something else of
	// that name: waiters, free permits, a count.
	Holds   []Hold
	Holders int

	// Unleased are holds that a read-write lock in Redis has without a lease of their own, at most
	// some dozens. Holders does not count them. Such a hold is that of a reader that died, or of
	// another kind of lock of the same name: Redisson takes a read-write lock over it.
	Unleased []Hold

	// Waiters are the waiters in the queue of a fair lock, in the order of the queue, at most
	// some dozens; Waiting is the number of all waiters.
	Waiters []Waiter
	Waiting int

	// Listeners is the number of clients that listen for a release. About as many processes
	// wait, each with any number of goroutines or threads. Waiters in a queue are not included.
	// It is -1 if the store does not know the number.
	Listeners int

	Permits int   // KindSemaphore: the number of all permits; 0 if unknown
	Free    int   // KindSemaphore: the number of free permits; negative if more are held than there are
	Count   int64 // KindLatch: the count; KindCounter: the number

	// Remaining is how long the store will keep the record. It is negative if the record has no
	// end. It is RemainingUnknown if there is an end that the store does not report.
	// Hold.Remaining is the rest of the lease of one hold.
	Remaining time.Duration
}

// Holder is one holder of a name, as the store shows it.
type Holder struct {
	Owner     string        // driver.Claim.Owner, or the value that another library wrote
	Note      string        // a text for people
	Holds     int           // the hold count
	Remaining time.Duration // the rest of its lease; negative if the lease has no end; RemainingUnknown if the store does not report it
}

// Kept reports whether nobody holds the name: it was released, but stays taken for the time in
// Remaining, see driver.Caps.AtLeast. Note is that of the last holder. ForceUnlock frees the
// name.
func (h Holder) Kept() bool { return driver.Kept(h.Owner) }

// Hold is a Holder with the details that a list shows.
type Hold struct {
	Holder // the part that ForceUnlock takes as its parameter

	Mode driver.Mode
	// Token and HeldFor belong to the present holder. If a process passes the lock on between
	// its goroutines, both values may be a few seconds old. A value is 0 if the store does not
	// know it. Some stores know the values only when a hold is some seconds old.
	Token   uint64        // the fencing token
	HeldFor time.Duration // how long the present holder has held the lock
	Client  Client
}

// Waiter is one waiter in the queue of a fair lock.
type Waiter struct {
	Owner     string
	Note      string        // a text for people
	Mode      driver.Mode   // the mode in which it wants the lock
	Remaining time.Duration // the time after which it loses its place without a renewal; RemainingUnknown if the store does not report it
	Client    Client
}

// Client describes the process of an owner, as that process reported it. A field that it
// did not report is zero.
type Client struct {
	ID      string // the id of the client, a part of its owners; "" if the owner has none
	Library string // "holdfast", "redisson", or "" if unknown
	Program string
	Host    string
	PID     int
	Note    string
	Started time.Time // the start of the process, by its own clock
}

// Detail is a Record with more information, which is read for one name only.
type Detail struct {
	Record
	Token uint64 // the last fencing token of the name; 0 if the store does not keep one for each name
	Keys  []Key  // the keys of the name in the store; empty for a store without keys

	// Waits has the clients that have reported a wait outside the queue in Waiters, the longest
	// wait first. Waits of a few seconds, and clients of other libraries, are missing.
	Waits []ClientWait
}

// ClientWait is a client with goroutines that wait for a name.
type ClientWait struct {
	Client Client
	Mode   driver.Mode   // the mode in which these goroutines want the lock
	Waited time.Duration // the longest waiting time of these goroutines; the real time may be longer
	Count  int           // how many goroutines wait
}

// Key is one key in the store.
type Key struct {
	Name      string
	Type      string        // the store's name for the type: "hash", "string", "zset", "list"
	Remaining time.Duration // the time until the key ends; negative if it has no end; RemainingUnknown if the store does not report it
	Value     string        // text on one or more lines; a long value is cut, and unprintable bytes are escaped
}
