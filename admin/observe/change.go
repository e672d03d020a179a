package observe

import (
	"cmp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// Types of changes that only polling finds. Polling also finds changes of the types
// EntryAcquired, EntryReleased, EntryForced, EntryRenewedLate and EntryWaiting.
const (
	Held      admin.EntryType = "held"      // the hold was there when the name was found, before a scan was complete
	Expired   admin.EntryType = "expired"   // the hold ended with its lease
	Renewed   admin.EntryType = "renewed"   // the lease was extended in time
	Counted   admin.EntryType = "count"     // the hold count of the holder changed
	Listening admin.EntryType = "listening" // the number of clients that listen for a release changed
)

// Change is one change of a name. It is an entry of the event log, or has the same fields
// as far as polling shows them: HeldFor is then the time since the grant, or since the
// first poll that showed the hold, and Left is what was left of the lease at the poll
// before. A forced unlock has the client and the note of the holder, if polling found the
// hold, and else only its owner.
type Change struct {
	admin.Entry // where Reported is false, Count is the hold count

	// Reported says that a program reported the change to the event log. If it is false,
	// polling found it.
	Reported bool

	// Waiting and Listeners belong to EntryWaiting and Listening where polling found
	// them. They are those of the admin.Record.
	Waiting, Listeners int

	found time.Time // by polling, or the time of the entry
}

// ClientID returns the id of the client whose change it is, "" if it is not known.
func (c Change) ClientID() string {
	id, _, _ := strings.Cut(c.Owner, ":")
	return cmp.Or(c.Client.ID, id)
}

// hold identifies the hold of the change in both sources. The token does not: polling may
// not know it.
func (c Change) hold() admin.Ended { return admin.Ended{Name: c.Name, Owner: c.Owner} }
