package driver

import (
	"context"
	"time"
)

// Drainer is an optional interface of a Backend with work in the background after its
// calls have returned.
type Drainer interface {
	// Drain waits until the background work has ended and returns nil. If ctx ends first,
	// it returns ctx's error.
	Drain(ctx context.Context) error
}

// Batcher is an optional interface of a Backend: it makes several tries, or several
// releases, in one round trip.
type Batcher interface {
	// TryAll makes one attempt for each claim in cs, as Try would. The claims have different
	// names. It returns one Attempt for each claim, in the same order.
	TryAll(ctx context.Context, cs []Claim) []Attempt

	// ReleaseAll releases each claim in cs as Release would. It returns one error for each
	// claim, in the same order.
	ReleaseAll(ctx context.Context, cs []Claim) []error
}

// Attempt is the result for one claim of a TryAll: what Try would have returned.
type Attempt struct {
	Outcome Outcome
	Err     error
}

// Resizer is an optional interface of a Backend that can change the number of permits of
// a semaphore.
type Resizer interface {
	// Resize sets the number of all permits of a semaphore, including held ones, and notifies
	// waiters. If more permits are held than the new number, their holders keep them, and no
	// other permit is granted until enough are released. A repetition changes nothing.
	Resize(ctx context.Context, name string, permits int) error

	// Permits returns the number of all permits and the number of free permits. The second
	// number is negative if more permits are held than there are. Both numbers are 0 if the
	// store does not know the name.
	Permits(ctx context.Context, name string) (total, free int, err error)
}

// Latcher is an optional interface of a Backend with count-down latches.
type Latcher interface {
	// SetCount sets the count of the latch `name` to n, which must be 1 or more, and returns
	// true. It returns false, and changes nothing, if the count is not 0. The parameter `call`
	// identifies this call: a repetition with the same value returns the first result.
	SetCount(ctx context.Context, name, call string, n int64) (bool, error)

	// CountDown lowers the count by one, and opens the latch at 0. On an open latch it
	// changes nothing. The parameter `call` identifies this call: a repetition with the same
	// value has no effect.
	CountDown(ctx context.Context, name, call string) error

	// Count returns the count; 0 means that the latch is open.
	Count(ctx context.Context, name string) (int64, error)

	// LatchWaiter returns a Waiter whose Wait returns when the latch may have opened. It
	// ignores Outcome.Ahead. The first Wait may return early, so the caller calls Count
	// after each Wait.
	LatchWaiter(name string) Waiter
}

// Notifier is an optional interface of a Backend that gets notifications of grants that
// may have ended.
type Notifier interface {
	// Notify calls `hint` with the Claim.Seq of each grant of one client that may have ended,
	// for example by force. The parameter `client` is the Claim.Client of that client. If all
	// claims of the client may have ended, because its session may have ended, Notify calls
	// `hint` with 0, once. Notify runs until ctx ends, and then returns ctx's error. It returns
	// another error if it cannot listen. That error is ErrRefused or errors.ErrUnsupported if
	// it can never listen.
	//
	// A call of `hint` may be wrong, may come twice and may be missing: only the next Renew is
	// certain. The function `hint` does not block, and several goroutines may call it at once.
	Notify(ctx context.Context, client string, hint func(seq uint64)) error
}

// Releaser is an optional interface of a Backend that releases in two steps, and reports
// how many other clients may be waiting.
type Releaser interface {
	// StartRelease is a Release that returns as soon as the request is queued in this process.
	// The function `finish` waits for the answer, as Release does; the caller must call it
	// exactly once. Its result `others` is the number of other clients that got the
	// notification of the release and may be waiting; it is -1 if unknown.
	//
	// If the caller then calls Try or Wake for the same name, the store sends that call after
	// the release where it can. That is not guaranteed: the calls may travel on two connections.
	// So the core repeats a Try that was refused meanwhile after the answer to the release, and
	// calls Wake only after that answer.
	StartRelease(ctx context.Context, c Claim) (finish func() (others int, err error))
}

// QuietReleaser is an optional interface of a Backend: a Releaser that can release without a
// notification of waiters, and notify them later. The core sets Claim.Quiet in a release only
// for such a Backend.
type QuietReleaser interface {
	Releaser

	// ReleaseNow does in one step what StartRelease and its result `finish` do. The core calls
	// ReleaseNow when no goroutine waits for the moment at which the request is sent.
	ReleaseNow(ctx context.Context, c Claim) (others int, err error)

	// Wake notifies the waiters of c.Name, as a release of c does. The core calls Wake if it has
	// released c with Claim.Quiet, and no goroutine of the process takes the name after that. The
	// core repeats Wake after an error. Waiters that were not notified ask again within a second.
	Wake(ctx context.Context, c Claim) error
}

// Reporter is an optional interface of a Backend that stores the holds and waits of a
// client for operators. No lock depends on them.
type Reporter interface {
	// Report replaces the stored report of the client r.Client. While the client has holds that
	// are older than half a second, or waits that are older than some seconds, the core calls
	// Report every few seconds with all of them. After the last of them has ended, the core calls Report once more, with none.
	// The core does not report younger holds and waits. The store removes the report of a
	// client that stops. After an error only the display is out of date.
	Report(ctx context.Context, r Report) error
}

// Report has the holds and waits of a client that are old enough, see Reporter. If a client has
// very many of them, the report has only the oldest.
type Report struct {
	Client string        // Claim.Client
	Note   string        // Claim.Note
	TTL    time.Duration // the TTL of the client, or the longest TTL of the holds if that is longer

	Holds     []ReportedHold // the longest hold first
	MoreHolds int            // about how many further holds there are
	Waits     []ReportedWait // the longest wait first
	MoreWaits int            // about how many further names the client waits for
}

// ReportedHold is a grant with its present holder.
type ReportedHold struct {
	Name            string
	Owner           string // Claim.Owner
	Mode            Mode
	Fair, ReadWrite bool          // as in its Claim
	Token           uint64        // the token of the present holder; 0 if the store has none
	HeldFor         time.Duration // how long the present holder has held the lock
}

// ReportedWait is a name for which goroutines of the client wait outside a queue of the
// store.
type ReportedWait struct {
	Name      string
	Mode      Mode
	ReadWrite bool          // as in the Claims
	Waited    time.Duration // the longest waiting time of these goroutines; the real time may be longer
	Count     int           // how many goroutines wait
}
