package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// EventType is the type of an Event.
type EventType string

// Kinds of events.
const (
	EventWait          EventType = "wait"          // a Lock or TryLock begins to wait; at most once for a call, and EventAcquire follows
	EventWake          EventType = "wake"          // a waiter asks the store again
	EventAcquire       EventType = "acquire"       // a Lock or TryLock ended, with a lock or an error
	EventRenew         EventType = "renew"         // a renewal got an answer, or failed
	EventRelease       EventType = "release"       // the Unlock that releases the lock ended
	EventLoss          EventType = "loss"          // a lock was lost
	EventCall          EventType = "call"          // a call to the store ended, with an answer or without one in time
	EventIndeterminate EventType = "indeterminate" // a call had no answer: Holdfast has found out its result, or has given up
)

// Values of Event.Op: what a call asks of the store.
const (
	OpTry     = "try"     // to take a lock
	OpRenew   = "renew"   // to extend leases
	OpRelease = "release" // to release a lock
)

// Event is one event of a lock, for metrics, traces and audit. A field that has no meaning for
// the type of the event is zero. Later versions may add fields.
type Event struct {
	Type    EventType
	Name    string
	Kind    string // the kind: mutex, fair, read, write or semaphore
	Backend string // the store's name
	Client  string // a random UUID of the Locker; the owners of its claims begin with it
	Note    string // Options.Note
	Owner   string // the owner of the lock in the store, as in admin.Hold.Owner; only if the lock was acquired
	Token   uint64

	Blocked   bool          // acquire: an EventWait came before
	Waited    time.Duration // acquire: the time from the call to its end
	Attempts  int           // acquire: the number of calls to the store
	HeldFor   time.Duration // release, loss: the time since the acquire
	Margin    time.Duration // renew: the time that was left before the lock would have counted as lost
	Remaining time.Duration // renew: the rest of the lease in the store
	Late      bool          // renew: it succeeded with less than a third of the lease left
	Reason    driver.Reason // loss: why the lock was lost
	Leased    bool          // loss, renew: FixedLease or AtMost has fixed the end, and a renewal does not move it any more
	Notified  bool          // wake: the store sent a notification; if false, a timer ended
	Op        string        // call, indeterminate: OpTry, OpRenew or OpRelease
	Took      time.Duration // call: how long it took
	Resolved  bool          // indeterminate: the result is certain now; if false, it is certain when the lease ends
	Permits   int           // acquire: the number of permits of the semaphore in the store, if Locker.Semaphore got another number

	// Err is the error of the event; nil if there is none. For an acquire it is ErrBusy, the
	// error of a context, or the error of the store. For a renewal, a release or a call it is
	// the error of the store. For a loss it is ErrLost.
	Err error
}
