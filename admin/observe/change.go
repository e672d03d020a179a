package observe

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// Types of changes that only polling finds. Polling also finds changes of the types
// EntryAcquired, EntryReleased, EntryForced, EntryRenewedLate and EntryWaiting.
const (
	Held      admin.EntryType = "held"      // a poll found the hold together with its name, before the first complete scan: the hold may be old
	Expired   admin.EntryType = "expired"   // the hold ended because its lease expired
	Renewed   admin.EntryType = "renewed"   // the lease was renewed, and not late
	Counted   admin.EntryType = "count"     // the hold count of the holder changed
	Listening admin.EntryType = "listening" // the number of clients that listen for a release changed
)

// Change is one change of a name: an entry of the event log, or a change that polling found.
// If polling found it, HeldFor is the time since the grant, or since the first poll that
// showed the hold, and Left is the rest of the lease at the previous poll. The Change for a
// forced unlock has the client and the note of the holder that lost the lock, if polling
// knows that hold. If not, it has only the owner of the hold.
type Change struct {
	admin.Entry // if Reported is false, Count is the hold count

	// Reported says that a program reported the change to the event log. If it is false,
	// polling found it.
	Reported bool

	// Waiting and Listeners have the values of the same fields of the admin.Record. They are
	// set if polling found a change of type EntryWaiting or Listening.
	Waiting, Listeners int

	found time.Time // when polling found the change; for a reported entry, its At; zero if Take returns the change at once
}

// ClientID returns the id of the client that the change is about, or "" if the id is not known.
func (c Change) ClientID() string {
	id, _, _ := strings.Cut(c.Owner, ":")
	return cmp.Or(c.Client.ID, id)
}

// Hold returns the name and the owner of the hold. An entry of the event log and a poll both
// show these two. Hold does not use the token, because polling may not know it.
func (c Change) Hold() admin.Ended { return admin.Ended{Name: c.Name, Owner: c.Owner} }

// Text returns the details of the change for people: the client, the durations, and the
// reason. The parameter `who` is the name of the client. The function `span` formats a
// duration.
func (c Change) Text(who string, span func(time.Duration) string) string {
	text := "by " + who
	switch {
	case c.Type == Counted:
		text = fmt.Sprintf("%d times by %s", c.Count, who)
	case c.Type == admin.EntryMissed:
		text = fmt.Sprintf("%d more by %s", c.Count, who)
	case c.Type == admin.EntryForced:
		text = "taken from " + who
	case c.Type == admin.EntryRenewedLate:
		text += fmt.Sprintf(", %s of the lease were left", span(c.Left))
	case c.Waited >= time.Millisecond:
		text += ", after " + span(c.Waited)
	}
	switch {
	case c.HeldFor < time.Millisecond:
	case c.Reported:
		text += ", held for " + span(c.HeldFor)
	default:
		text += ", seen for " + span(c.HeldFor)
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}
