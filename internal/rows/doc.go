// Package rows keeps locks in a table of a database: a lease row for each name.
//
// A row has the owner of the lease, the end of the lease by the clock of the server, and the
// last fencing token that was granted. Engine has what all databases have in common: the
// answers of a Backend, conflicts of transactions, batches, and waiting. A Table has what
// differs between databases: statements and errors.
//
// The row also has the owners that wait, in the order of their arrival. A name that becomes
// free is reserved for the first waiter for a Turn, then for the second, and so on. So
// waiters get the lock in the order of their arrival, and a waiter that has died delays the
// others by one Turn.
//
// The layout has exclusive locks, with tokens and Claim.AtLeast. It has no read-write lock,
// no semaphore and no latch, because a row has room for one owner. It has no fair lock
// either: a waiter may lose its turn, and then goes to the end of the queue.
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
// committed when it returns without an error. All names, owners and notes may contain bytes
// that are not text; names are no longer than 512 bytes.
//
// A method returns an error of package driver only if it is certain that this error applies.
// The error is also ErrConflict if the database has undone the transaction because of another
// one.
type Table interface {
	// Check returns an error if the table does not exist, or has not the required columns.
	Check(ctx context.Context) error

	// Try makes one attempt for each of cs, which have different names, and the same TTL,
	// Tokens and NoQueue. Row.FreeIn says whether a row is free for a claim. A free row is
	// granted, with the next tokens. A row that the owner holds is extended, and keeps its
	// tokens. Try never shortens a lease. A grant removes its owner, and the waiters before
	// it, from the queue. A claim that is refused goes to the end of the queue, unless the
	// claim is in the queue already or has NoQueue set. The result has one Row per claim, in
	// the same order.
	Try(ctx context.Context, cs []driver.Claim) ([]Row, error)

	// Renew extends the leases of those of cs whose owner is the holder, and never shortens
	// them. held reports for each claim whether its owner is the holder.
	Renew(ctx context.Context, cs []driver.Claim) (held []bool, err error)

	// Release ends the leases of those of cs whose owner is the holder, and removes the
	// other owners from the queues. released reports for each claim whether its owner was
	// the holder or a waiter. A name that was held stays taken for Claim.AtLeast: until then
	// the owner in its row is the old owner followed by driver.KeptOwner.
	Release(ctx context.Context, cs []driver.Claim) (released []bool, err error)

	// Read returns the rows of names, in the same order.
	Read(ctx context.Context, names []string) ([]Row, error)

	// Page returns rows in the order of the bytes of their keys, at most as many as the
	// parameter most. It returns the first rows whose keys are not smaller than the
	// parameter from, and larger than after. Rows of free names, and rows whose keys TxName
	// made, are among them.
	Page(ctx context.Context, from, after string, most int) ([]KeyedRow, error)

	// Force ends the lease of owner if its last token is token, stores owner and reason in
	// the row, and wakes waiters. It reports whether owner had that lease.
	Force(ctx context.Context, name, owner string, token uint64, reason string) (bool, error)
}

// Listener is a Table whose database has notifications.
type Listener interface {
	// Listen calls `heard` for each release of a name for which a listening client waits,
	// with the name and the first waiter in its row. It calls live once, as soon as it misses
	// no release any more. It returns when the connection is lost or ctx has ended. It returns
	// errors.ErrUnsupported if it can never listen.
	Listen(ctx context.Context, live func(), heard func(name, next string)) error
}

// ErrNoTable says that the table does not exist. An error that is ErrNoTable is also
// driver.ErrRefused, and its text has the statement that creates the table.
var ErrNoTable = errors.New("there is no table")

// Row is what a call of a Table returns about the row of one name.
type Row struct {
	Known     bool          // false: there is no row, or a Try has to be repeated
	Granted   bool          // to the claim, by Try
	First     uint64        // the first token of the holder, or of the last holder
	Last      uint64        // the last token of that holder; Try may leave it out
	Owner     string        // "" if nobody holds; ends with driver.KeptOwner for Claim.AtLeast
	Note      string        // of the holder, or of the last holder
	HeldFor   time.Duration // since the grant
	Remaining time.Duration // of the lease; 0 or negative if it has ended
	Waiters   []string      // the owners that wait, in their order
	Peer      bool          // the owner is not a claim, but a hold of another program

	// The lease that Force ended last; Try may leave it out.
	Forced string // its owner; "" if there was none
	Reason string // the reason that the operator gave
}

// Turn is for how long a name that became free is reserved for the first waiter, then for
// the second, and so on. It is longer than the pause between two polls of a row, so that
// only a waiter that has died or hangs misses its turn.
const Turn = 300 * time.Millisecond

const (
	// Waiting is how many waiters the queue of a row has at most. A waiter that finds the
	// queue full is not in it.
	Waiting = 100
	// Turns is for how many waiters a name is reserved, one after the other. When all these
	// turns have passed, any waiter may get the lock, because the first waiters may have died.
	Turns = 8
)

// FreeIn returns how long it takes until owner can get the row: the remaining time of the
// lease, and a Turn for each waiter before owner, for Turns of them at most. All waiters are
// before an owner that is not in the queue.
func (r *Row) FreeIn(owner string) time.Duration {
	return r.Remaining + time.Duration(min(r.position(owner), Turns))*Turn
}

// position returns how many waiters are before an owner: all of them if the owner is not in
// the queue.
func (r *Row) position(owner string) int {
	if n := slices.Index(r.Waiters, owner); n >= 0 {
		return n
	}
	return len(r.Waiters)
}

// Waiters returns the owners in a list that has commas between them.
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

// ErrConflict says that the database has undone a transaction because of another one. The
// caller may repeat the call without a pause.
var ErrConflict = errors.New("conflict with another transaction")

// Limits describe what a Table can do.
type Limits struct {
	Name    string // driver.Info.Name
	Batch   int    // how many claims a Try or a Release takes in one transaction; 0 means 500
	Listens bool   // the Table is a Listener, and is to listen
	NoQueue bool   // rows have no queue

	NoTokens bool          // Row.First is 0: there are no fencing tokens
	MaxName  int           // the longest name in bytes; 0 means 512
	MaxTTL   time.Duration // the longest TTL; 0 means ten years
	TTLStep  time.Duration // TTLs are rounded up to a multiple of it; 0 means a microsecond
}

// maxName is the longest name in bytes, unless Limits has another one. Escape makes a key from
// it that may be four times as long, and an index accepts a key of that length.
const maxName = 512

// info returns what an Engine over a table with these limits can do.
func (l Limits) info() driver.Info {
	// If rows are polled, the time can be long: the polls of the hub also find the end of a lease,
	// and waiters that have lost their positions in the queue.
	recheck := 5 * time.Second
	if l.Listens {
		recheck = 0 // the default of the core
	}
	return driver.Info{
		Name:    l.Name,
		Caps:    driver.Caps{Fencing: !l.NoTokens, ExpiresAlone: true, AtLeast: true, Wakes: l.Listens},
		MinTTL:  10 * time.Millisecond,
		MaxTTL:  cmp.Or(l.MaxTTL, 10*365*24*time.Hour),
		TTLStep: cmp.Or(l.TTLStep, time.Microsecond),
		MaxName: cmp.Or(l.MaxName, maxName),
		Recheck: recheck,
	}
}
