package admin

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// LogFilter says which part of the event log is wanted: the entries after the one
// whose ID is After, or where that is empty, those of the time Past. Most is how many
// are wanted at most; of a Source, 0 means 1000.
type LogFilter struct {
	Last  time.Duration
	After string
	Limit int
}

// EntryType says what an Entry reports.
type EntryType string

// What happens to a lock, as its client reports it.
const (
	EntryWaiting     EntryType = "waiting"      // begins to wait
	EntryAcquired    EntryType = "acquired"     // has the lock
	EntryGaveUp      EntryType = "gave-up"      // waited, and does not have it
	EntryRenewedLate EntryType = "renewed-late" // with less of the lease left than there should be
	EntryReleased    EntryType = "released"     // does not hold it any more
	EntryLost        EntryType = "lost"         // held it, and cannot be sure any more that it does
	EntryForced      EntryType = "forced"       // ended the hold of somebody else
	EntryMissed      EntryType = "missed"       // Count entries were not written
)

// Rare reports that an entry is one that somebody will look for, however much else
// happened.
func (t EntryType) Rare() bool {
	return t == EntryLost || t == EntryForced || t == EntryRenewedLate
}

// Entry is one line of the event log: something that a client did, or that happened
// to it. The log decides nothing, and has holes: a client writes at most so much a
// second, later, and once. Fields that have no meaning for its type are zero.
type Entry struct {
	ID     string // set by ReadLog: its place, for LogFilter.After
	Type   EntryType
	At     time.Time // by the clock of the process that asks, to about a network delay
	Client Client    // set by ReadLog
	Note   string    // likewise

	Name  string
	Kind  Kind
	Mode  driver.Mode
	Token uint64

	Waited  time.Duration // acquired, gave-up
	HeldFor time.Duration // released, lost
	Left    time.Duration // renewed-late: of the lease, before
	Owner   string        // of the hold, as Holder.Owner; "" where there is none
	Reason  string        // lost: a driver.Reason; forced: what was given as the reason; released: "not confirmed"
	Count   int           // missed
}
