// Package rows keeps locks in a table of a database: a lease row for each name.
//
// A row has the owner of the lease, the end of the lease by the clock of the server, and the
// last fencing token that was granted. Engine has what all databases have in common: the
// answers of a Backend, conflicts of transactions, batches, and waiting. A Table has what
// differs between databases: statements and errors.
//
// The row also has the owners that wait, in the order of their arrival. When a name becomes
// free, it is reserved for the first waiter. After one Turn the second waiter may take it, too,
// after another Turn the third, and so on. So waiters get the lock in the order of their
// arrival, and a waiter that has died delays the others by one Turn.
//
// The layout has exclusive locks, with tokens and Claim.AtLeast. It has no read-write lock, no
// semaphore and no latch, because a row has room for one owner. It has no fair lock either,
// because a waiter that loses its turn goes to the end of the queue.
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

// Table is the table with the rows. Each call that changes rows runs one transaction. If the
// call returns no error, that transaction is committed. All names, owners and notes may contain
// bytes that are not text; names are no longer than 512 bytes.
//
// A method returns an error of package driver, such as driver.ErrNotExecuted, only if it is
// certain that this error applies. If the database has undone the transaction of a call because
// of another transaction, the error of that call is also ErrConflict.
type Table interface {
	// Check returns an error if the table does not exist, or lacks a required column.
	Check(ctx context.Context) error

	// Try makes one attempt for each claim in cs. The claims have different names, and the same
	// TTL, Tokens and NoQueue. If a name is free for the claim, see Row.FreeIn, Try grants it
	// with the next tokens. If the owner of the claim is the holder already, Try extends the
	// lease and keeps its tokens. Try never shortens a lease. A grant removes the owner and all
	// waiters before it from the queue. A claim that is refused goes to the end of the queue,
	// unless it is in the queue already, the queue is full, or NoQueue is set. The result has
	// one Row for each claim, in the same order.
	Try(ctx context.Context, cs []driver.Claim) ([]Row, error)

	// Renew extends the lease of each claim whose owner is the holder. It never shortens a
	// lease. The result `held` has one value for each claim: true if the owner of the claim is
	// the holder.
	Renew(ctx context.Context, cs []driver.Claim) (held []bool, err error)

	// Release ends the lease of each claim whose owner is the holder. It removes the owners of
	// the other claims from the queues. The result `released` has one value for each claim:
	// true if the owner of the claim was the holder or a waiter. A name that was held stays
	// taken for Claim.AtLeast after the release. During that time, the owner in the row is the
	// old owner followed by driver.KeptOwner.
	Release(ctx context.Context, cs []driver.Claim) (released []bool, err error)

	// Read returns one Row for each name, in the order of the names.
	Read(ctx context.Context, names []string) ([]Row, error)

	// Page returns rows whose keys are larger than `after` and not smaller than `from`. It
	// returns the first such rows, in the order of the bytes of their keys, and not more than
	// the number `most`. Some of them may be rows of free names, or rows whose keys TxName
	// made.
	Page(ctx context.Context, from, after string, most int) ([]KeyedRow, error)

	// Force ends the lease of `owner` if the last token of that lease is `token`. Then it
	// stores `owner` and `reason` in the row, and wakes waiters. It reports whether it has
	// ended the lease.
	Force(ctx context.Context, name, owner string, token uint64, reason string) (bool, error)
}

// Listener is a Table whose database has notifications.
type Listener interface {
	// Listen waits for notifications. When a name is released and a listening client waits for
	// it, Listen calls the function `heard` with the name and the first waiter in the row.
	// Listen calls the function `live` once. After that call it misses no release. Listen
	// returns when the connection is lost or ctx has ended. It returns errors.ErrUnsupported if
	// it can never listen.
	Listen(ctx context.Context, live func(), heard func(name, next string)) error
}

// ErrNoTable says that the table does not exist. An error that is ErrNoTable is also
// driver.ErrRefused, and its text has the statement that creates the table.
var ErrNoTable = errors.New("there is no table")

// Row is what a call of a Table returns about the row of one name.
type Row struct {
	Known     bool          // false: there is no row, or a Try has to be repeated
	Granted   bool          // Try has granted the name to the claim; Read never sets it
	First     uint64        // the first token of the holder, or of the last holder
	Last      uint64        // the last token of the same holder; Try may leave it 0
	Owner     string        // "" if there is no holder; see Table.Release about driver.KeptOwner
	Note      string        // the note of the holder, or of the last holder
	HeldFor   time.Duration // the time since the grant
	Remaining time.Duration // the time that is left of the lease; 0 or negative if the lease has ended
	Waiters   []string      // the owners that wait, in the order of the queue
	Peer      bool          // another program holds the name; Owner is not the owner of a claim

	// About the lease that Force ended last. Try may leave both fields empty.
	Forced string // the owner of that lease; "" if Force has ended no lease of the name
	Reason string // the reason that the operator gave
}

// Turn is the time for which a free name is reserved for its first waiter alone. Then the
// second waiter may take the name, too, one Turn later the third, and so on. A Turn is longer
// than the pause between two polls of a row, so that only a waiter that has died or hangs
// misses its turn.
const Turn = 300 * time.Millisecond

const (
	// Waiting is how many waiters the queue of a row has at most. A waiter that finds the queue
	// full does not enter it.
	Waiting = 100
	// Turns is the number of turns after a name has become free. When that many turns have
	// passed, any claim may get the name, because the waiters at the front of the queue may
	// have died.
	Turns = 8
)

// FreeIn returns the time until the row is free for an owner: the remaining time of the lease,
// plus one Turn for each waiter before the owner. FreeIn counts at most Turns waiters. If the
// owner is not in the queue, all waiters are before it. The result is 0 or negative if the row
// is free for the owner now.
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

// Waiters returns the owners in a list, which has a comma between one owner and the next.
func Waiters(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// KeyedRow is a row with its key, which Escape or TxName made from the name.
type KeyedRow struct {
	Key string
	Row
}

// ErrConflict says that the database has undone a transaction because of another transaction.
// The caller may repeat the call without a pause.
var ErrConflict = errors.New("conflict with another transaction")

// Limits describe what a Table can do.
type Limits struct {
	Name    string // driver.Info.Name
	Batch   int    // the most claims of one call of Table.Try or Table.Release; 0 means 500
	Listens bool   // the Table is a Listener, and the Engine calls its method Listen
	NoQueue bool   // rows have no queue

	NoTokens bool          // Row.First is 0: there are no fencing tokens
	MaxName  int           // the longest name in bytes; 0 means 512
	MaxTTL   time.Duration // the longest TTL; 0 means ten years
	TTLStep  time.Duration // the Engine rounds TTLs up to a multiple of TTLStep; 0 means a microsecond
}

// maxName is how many bytes a name may have if Limits.MaxName is 0. The key that Escape makes
// from the name may be three times as long. An index accepts a key of that length.
const maxName = 512

// info returns what an Engine over a table with these limits can do.
func (l Limits) info() driver.Info {
	// If rows are polled, the core need not check a lock often: the polls of the hub also find
	// the end of a lease, and waiters that have lost their positions in the queue.
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
