package admin

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// RemainingUnknown stands where a duration is that ends, and of which the store does not tell how
// much is left.
const RemainingUnknown = time.Duration(math.MinInt64)

// Record is what a store keeps under one name.
type Record struct {
	Name string
	Kind Kind

	// Holds are the holds, up to some dozens: Holders is how many there are. A name
	// without any is listed only where something else is kept of it: waiters, free
	// permits, a count.
	Holds   []Hold
	Holders int

	// Waiters are those in the queue of a fair lock, in their order, up to some
	// dozens: Waiting is how many there are.
	Waiters []Waiter
	Waiting int

	// Listeners is how many clients listen for a release: about as many processes
	// wait, each with any number of goroutines or threads. Those in a queue are
	// not among them. -1 if the store does not tell.
	Listeners int

	Permits int   // KindSemaphore: how many there are in all; 0 if that is not known
	Free    int   // KindSemaphore: how many are free; negative if more are out than there are
	Count   int64 // KindLatch: what is left to count; KindCounter: the number

	// Remaining is how long the store keeps the record; negative if forever, or RemainingUnknown. The
	// end of a single hold is Hold.Remaining.
	Remaining time.Duration
}

// Holder is one holder of a name, as the store shows it.
type Holder struct {
	Owner     string        // driver.Claim.Owner, or what another client wrote in its place
	Note      string        // who that is, for people
	Holds     int           // its hold count
	Remaining time.Duration // what is left of its lease; negative if it has none, or RemainingUnknown
}

// Hold is a Holder with all that a list shows of it.
type Hold struct {
	Holder // which ForceUnlock takes

	Mode driver.Mode
	// Token and HeldFor are of the holder that has it now, or a few seconds ago, where
	// one process hands a lock from holder to holder. They are 0 if the store does not
	// tell; it may begin to tell when a hold is some seconds old.
	Token   uint64        // the fencing token
	HeldFor time.Duration // how long ago that holder got it
	Client  Client
}

// Waiter is one waiter in the queue of a fair lock.
type Waiter struct {
	Owner     string
	Note      string        // who that is, for people
	Mode      driver.Mode   // how it wants to hold the name
	Remaining time.Duration // after which it loses its place if it is not renewed, or RemainingUnknown
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
	// longest first. A client that has waited for a few seconds only, or that uses another library,
	// is not among them.
	Waits []ClientWait
}

// ClientWait is a client some of whose goroutines wait for a name.
type ClientWait struct {
	Client Client
	Mode   driver.Mode   // how they want to hold the name
	Waited time.Duration // the longest of them, at least
	Count  int           // how many goroutines wait
}

// Key is one key of a store, as it is there.
type Key struct {
	Name      string
	Type      string        // in the store's words: "hash", "string", "zset", "list"
	Remaining time.Duration // until it ends; negative if it does not, or RemainingUnknown
	Value     string        // as text on one or more lines, cut where it is long; what cannot be printed is escaped
}
