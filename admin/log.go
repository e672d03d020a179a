package admin

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// LogFilter selects entries of the event log. If After is set, the filter selects the entries
// that follow the entry with that ID. If After is empty, the filter selects the entries that
// were written within the time Last before now. Limit is the maximal number of entries. A Limit
// of 0 means 1000 for a Source, and no limit for a Console.
type LogFilter struct {
	Last  time.Duration
	After string
	Limit int
}

// EntryType is the type of an Entry.
type EntryType string

// Types of entries.
const (
	EntryWaiting     EntryType = "waiting"      // the client begins to wait
	EntryAcquired    EntryType = "acquired"     // the client has acquired the lock
	EntryGaveUp      EntryType = "gave-up"      // the client waited, and did not get the lock
	EntryRenewedLate EntryType = "renewed-late" // the renewal succeeded with less than a third of the lease left
	EntryReleased    EntryType = "released"     // the client has released the lock
	EntryLost        EntryType = "lost"         // the client has lost the lock
	EntryForced      EntryType = "forced"       // the client has ended a hold of another client
	EntryMissed      EntryType = "missed"       // some entries were not written; Entry.Count is their number
)

// Rare reports whether entries of this type are rare and important: losses, forced holds,
// late renewals. The log keeps them longer.
func (t EntryType) Rare() bool {
	return t == EntryLost || t == EntryForced || t == EntryRenewedLate
}

// Entry is one entry of the event log: an event of a lock, as a client reported it. The log is
// for people only. It has holes, because a client writes a limited number of entries a second,
// with a delay, and does not repeat a failed write. A field that has no meaning for the type of
// the entry is zero.
type Entry struct {
	ID     string // set by ReadLog: its position, for LogFilter.After
	Type   EntryType
	At     time.Time // by the clock of the reading process, with an error of about a network delay
	Client Client    // set by ReadLog
	Note   string    // set by ReadLog: the note of the client

	Name  string
	Kind  Kind
	Mode  driver.Mode
	Token uint64

	Waited  time.Duration // acquired, gave-up: how long the client waited
	HeldFor time.Duration // released, lost: how long the client held the lock
	Left    time.Duration // renewed-late: the rest of the lease before the renewal
	Owner   string        // the owner of the hold, as in Holder.Owner; "" if there is none
	Reason  string        // lost: a driver.Reason; forced: the given reason; released: "not confirmed"
	Count   int           // missed: the number of entries that were not written
}
