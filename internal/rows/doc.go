// Package rows keeps locks in a table of a database: a lease row for each name.
//
// A row has the owner of the lease and when it ends, by the clock of the server, and
// the last fencing token that was given. Engine is what is the same for every database:
// what a Backend answers, conflicts of transactions, batches, and waiting. A Table is
// what differs: statements and errors.
//
// The row also has the owners that wait, in the order in which they came. A name that
// becomes free is kept for the first of them for a Turn, then for the second: so processes
// take turns, and one that is gone costs the others a Turn.
//
// What this layout has: a lock for one holder, with tokens, and with Claim.AtLeast. It
// has no read-write lock, no semaphore and no latch: a row has room for one owner. Nor is
// there a fair lock: a waiter may lose its turn, and then goes to the end.
package rows

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Table is the table with the rows. Each call that changes rows is one transaction, and is
// committed when it returns without an error. All names, owners and notes may have
// bytes that are no text; names are no longer than 512 bytes.
//
// An error is one of package driver as far as that is certain, and also ErrConflict
// where the database has undone the transaction because another one was in its way.
type Table interface {
	// Check returns an error if the table is not there, or not as it must be.
	Check(ctx context.Context) error

	// Try makes one attempt for each of cs, which have different names, and the same
	// TTL, Tokens and NoQueue. A row is free for a claim as Row.FreeIn says; a free one is
	// granted, with the next tokens, and one that the owner holds is extended, with its
	// tokens as they are. It never shortens a lease. A grant takes its owner and those
	// before it out of the queue. A claim that is refused goes to the end of the queue,
	// unless it is in it or has NoQueue set. The answer has one Row per claim, in the same
	// order.
	Try(ctx context.Context, cs []driver.Claim) ([]Row, error)

	// Renew extends the leases of the owners that hold, never shortens them, and says
	// of each claim whether its owner does.
	Renew(ctx context.Context, cs []driver.Claim) (held []bool, err error)

	// Release ends the leases of the owners that hold, takes those that wait out of the
	// queue, and says of each claim whether its owner did either. A name that was held stays
	// taken for Claim.AtLeast, with the owner and driver.KeptOwner.
	Release(ctx context.Context, cs []driver.Claim) (released []bool, err error)

	// Look returns what is in the rows of names, in the same order.
	Look(ctx context.Context, names []string) ([]Row, error)

	// Page returns the first rows, most at most, whose keys are not before from and come
	// after after, in the order of their bytes: also those of free names, and those of
	// TxName.
	Page(ctx context.Context, from, after string, most int) ([]KeyedRow, error)

	// Force ends the lease of owner with its last token, keeps both it and reason in the
	// row, and wakes waiters. It reports whether owner had that lease.
	Force(ctx context.Context, name, owner string, token uint64, reason string) (bool, error)

	// Listen calls heard with each name that was released, of those for which somebody
	// waits who listens, and with the first waiter. It calls live, once, when
	// nothing will be missed from then on, and returns when the link is lost or ctx has
	// ended. It returns errors.ErrUnsupported where the database cannot say that.
	Listen(ctx context.Context, live func(), heard func(name, next string)) error
}

// ErrNoTable says that the table is not there. It comes with driver.ErrRefused, and the
// text has the statement that makes the table.
var ErrNoTable = errors.New("there is no table")

// Row is what is known of one row.
type Row struct {
	Known   bool          // false: there is no row, or a Try met one that has just come up
	Granted bool          // to the claim, by Try
	First   uint64        // the first of the tokens of the holder, or held last
	Last    uint64        // the last of them; Try may leave it out
	Owner   string        // "" if nobody holds; with driver.KeptOwner of a name that stays taken
	Note    string        // of the holder, or of the last one
	Held    time.Duration // since when
	Rest    time.Duration // of the lease; not more than 0 if it has ended
	Waiters []string      // the owners that wait, in their order
	Peer    bool          // the owner is not a claim, but a hold of another program

	// The lease that Force ended last; Try may leave it out.
	Forced string // its owner; "" if there was none
	Reason string // what was given as the reason
}

// Turn is how long a name that became free is kept for the first waiter, then
// for the second, and so on. It is longer than the pause between two looks at a row, so
// that only who is gone, or hangs, misses a turn.
const Turn = 300 * time.Millisecond

const (
	// Waiting bounds the queue of a row. A later waiter has no place in it.
	Waiting = 100
	// Turns bounds for how many waiters a name is kept. Behind them it is a
	// matter of chance: those before may all be gone.
	Turns = 8
)

// FreeIn returns after how long the row is free for an owner: when the lease has ended and
// waiters before it, or everybody if it does not wait, had their turns.
func (r *Row) FreeIn(owner string) time.Duration {
	return r.Rest + time.Duration(min(r.place(owner), Turns))*Turn
}

// place returns how many wait before an owner.
func (r *Row) place(owner string) int {
	if n := slices.Index(r.Waiters, owner); n >= 0 {
		return n
	}
	return len(r.Waiters)
}

// Waiters returns the owners of a list with commas between them.
func Waiters(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// KeyedRow is a row with its key: the name as Escape or TxName makes it.
type KeyedRow struct {
	Key string
	Row
}

// ErrConflict says that the database has undone a transaction because of another one,
// and that the same call may succeed at once.
var ErrConflict = errors.New("conflict with another transaction")

// Limits are those of a Table.
type Limits struct {
	Name    string // driver.Info.Name
	Batch   int    // how many claims a Try or a Release takes in one transaction; 0 means 500
	Listens bool   // Table.Listen works
	NoQueue bool   // rows have no queue

	NoTokens bool          // Row.First is 0: there are no fencing tokens
	MaxName  int           // the longest name in bytes; 0 means 512
	MaxTTL   time.Duration // the longest TTL; 0 means ten years
	TTLStep  time.Duration // TTLs are rounded up to a multiple of it; 0 means a microsecond
}

// maxName is the longest name in bytes. Escaped it may be four times as long, which an
// index still takes.
const maxName = 512

// info returns what an Engine over a table with these limits can do.
func (l Limits) info() driver.Info {
	return driver.Info{
		Name:    l.Name,
		Caps:    driver.Caps{Fencing: !l.NoTokens, ExpiresAlone: true, AtLeast: true, Wakes: l.Listens},
		MinTTL:  10 * time.Millisecond,
		MaxTTL:  cmp.Or(l.MaxTTL, 10*365*24*time.Hour),
		TTLStep: cmp.Or(l.TTLStep, time.Microsecond),
		MaxName: cmp.Or(l.MaxName, maxName),
		Recheck: l.recheck(),
	}
}

// recheck is how often a waiter asks for itself. Where rows are polled it need not: the hub
// does so for all waiters, and also finds the end of a lease and the loss of a place.
func (l Limits) recheck() time.Duration {
	if l.Listens {
		return 0
	}
	return 5 * time.Second
}
