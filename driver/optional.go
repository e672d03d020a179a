package driver

import (
	"context"
	"time"
)

// Drainer is implemented by a Backend that goes on in the background after its
// calls have returned.
type Drainer interface {
	// Drain waits until nothing runs in the background, or returns ctx's error.
	Drain(ctx context.Context) error
}

// Batcher is implemented by a Backend that can make several tries, or releases,
// in one round trip.
type Batcher interface {
	// TryAll makes one attempt for each of cs, which have different names, as Try
	// would. The answer has one Attempt per claim, in the same order.
	TryAll(ctx context.Context, cs []Claim) []Attempt

	// ReleaseAll releases each of cs as Release would. The answer has one error per
	// claim, in the same order.
	ReleaseAll(ctx context.Context, cs []Claim) []error
}

// Attempt is the answer to one claim of a TryAll: what Try would have returned.
type Attempt struct {
	Outcome Outcome
	Err     error
}

// Resizer is implemented by a Backend that can change how many permits a
// semaphore has.
type Resizer interface {
	// Resize sets how many permits name has in all, held ones included, and wakes
	// waiters. Where it has fewer than are held, those go on, and no new one is
	// given out until enough have come back. Repeating it changes nothing.
	Resize(ctx context.Context, name string, permits int) error

	// Permits returns how many permits name has in all, and how many of them are
	// free; both are 0 if the store does not know the name. free is negative if
	// more are held than there are.
	Permits(ctx context.Context, name string) (total, free int, err error)
}

// Latcher is implemented by a Backend that keeps count-down latches.
type Latcher interface {
	// SetCount sets the count of the latch name to n, at least 1, and reports
	// whether it did: a latch that is counting is not set again. call is unique to
	// this call; repeated with it, SetCount answers as it did the first time.
	SetCount(ctx context.Context, name, call string, n int64) (bool, error)

	// CountDown lowers the count by one, and opens the latch at 0. Counting down
	// an open latch changes nothing. call is unique to this call; repeated with
	// it, CountDown counts once.
	CountDown(ctx context.Context, name, call string) error

	// Count returns the count; 0 means that the latch is open.
	Count(ctx context.Context, name string) (int64, error)

	// LatchWaiter returns a Waiter that wakes when the latch may have opened.
	// Outcome.Ahead of what it is given is ignored: it returns early the first
	// time, so the caller counts again after each Wait.
	LatchWaiter(name string) Waiter
}

// Notifier is implemented by a Backend that hears early that a grant may be over.
type Notifier interface {
	// Notify calls hint with the Claim.Seq of a grant of client, a Claim.Client, that
	// may be over: somebody has ended it by force. Where all claims of the client may
	// be over at once, since its session is, it calls hint with 0, once for all of
	// them. Notify goes on until ctx ends, and then returns ctx's error. It returns
	// another one if it cannot listen: ErrRefused or errors.ErrUnsupported where it
	// never will.
	//
	// A hint proves nothing, may be wrong, may come twice and may be missing: the next
	// Renew says what is so. hint does not block, and may be called from several
	// goroutines at once.
	Notify(ctx context.Context, client string, hint func(seq uint64)) error
}

// Releaser is implemented by a Backend that releases in two steps, and learns who
// else may be waiting.
type Releaser interface {
	// StartRelease is Release, but returns as soon as the call is on its way. finish
	// waits for the answer as Release does; it must be called, and only once. others
	// is how many other clients received the release and may be waiting for it, -1 if
	// that is not known.
	//
	// No order is promised: a Try of the same name that is made after StartRelease
	// arrives later as far as the client can have it so. One that arrives before is
	// refused, and its Wait returns with the release.
	StartRelease(ctx context.Context, c Claim) (finish func() (others int, err error))
}

// Reporter is implemented by a Backend that keeps for people what a client holds
// and waits for. What it keeps decides nothing.
type Reporter interface {
	// Report replaces what is kept of the client r.Client. While the client has
	// holds or waits that are older than some seconds it is called every few
	// seconds, with all of them, and once more without any when the last is over;
	// never for a client whose holds and waits are all shorter than that. One that
	// stops to report is forgotten by itself. An error costs only
	// what is shown.
	Report(ctx context.Context, r Report) error
}

// Report is what a client holds and waits for, as far as it is older than some
// seconds. A client that has very much of it names the oldest only.
type Report struct {
	Client string        // Claim.Client
	Note   string        // Claim.Note
	TTL    time.Duration // the longest of its leases

	Holds     []ReportedHold // the longest first
	MoreHolds int            // how many there are besides, about
	Waits     []ReportedWait // the longest first
	MoreWaits int            // for how many names it waits besides, about
}

// ReportedHold is a grant in the hands of its present holder.
type ReportedHold struct {
	Name            string
	Owner           string // Claim.Owner
	Mode            Mode
	Fair, ReadWrite bool          // as of its Claim
	Token           uint64        // of the present holder, where the grant was passed on; 0 if the store has none
	HeldFor         time.Duration // by the present holder
}

// ReportedWait is a name that goroutines of the client wait for without a place in
// a queue of the store.
type ReportedWait struct {
	Name      string
	Mode      Mode
	ReadWrite bool          // as of the Claims
	Waited    time.Duration // the longest of them, at least
	Count     int           // how many goroutines wait
}
