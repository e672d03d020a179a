package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
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
	Leased    bool          // loss, renew: Lease or AtMost has fixed the end, and a renewal does not move it any more
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

func (l *Locker) emit(ctx context.Context, e Event) {
	if l.observe == nil {
		return
	}
	e.Backend, e.Client, e.Note = l.info.Name, l.id, l.note
	l.observe(ctx, e)
}

func (a *acquisition) report(ctx context.Context, lock *Lock, err error) {
	l := a.locker
	e := Event{
		Type: EventAcquire, Name: a.claim.Name, Kind: a.kind.String(),
		Waited: a.locker.clock.Now() - a.began, Attempts: int(a.tries), Blocked: a.waitReported, Err: err,
	}
	if lock != nil {
		e.Token, e.Owner, e.Permits = lock.Token(), lock.hold.lease.owner, a.permits
	}
	if err == nil && l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "acquired", "lock", e.Name, "backend", l.info.Name, "token", e.Token, "waited", e.Waited)
	}
	l.emit(ctx, e)
}

func (l *Locker) logWaiting(ctx context.Context, a *acquisition) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "waiting", "lock", a.claim.Name, "backend", l.info.Name,
			"holder", a.last.Holder, "lease", a.last.RetryAfter, "waited", a.locker.clock.Now()-a.began)
	}
}

func (l *Locker) reportRenewal(r renew.Report) {
	ctx := context.Background()
	k, ok := r.Item.(*lease)
	if !ok { // the claim of a waiter, which is no lock yet
		return
	}
	switch {
	case retry.Gone(r.Err): // the loss is logged
	case r.Err != nil:
		l.log.Warn("renewal failed, trying again", "lock", k.name, "backend", l.info.Name, "token", r.Token, "lease", r.Margin, "err", r.Err)
	case r.Late:
		l.log.Warn("renewal late", "lock", k.name, "backend", l.info.Name, "token", r.Token, "lease", r.Margin)
	case l.log.Enabled(ctx, slog.LevelDebug):
		l.log.Debug("renewed", "lock", k.name, "backend", l.info.Name, "token", r.Token, "lease", r.Margin)
	}
	l.emit(ctx, Event{
		Type: EventRenew, Name: k.name, Kind: k.kind.String(), Token: r.Token,
		Margin: r.Margin, Late: r.Late, Leased: r.Fixed, Owner: k.owner, Remaining: r.Left, Err: r.Err,
	})
}

func (l *Locker) reportRelease(h *hold, err error) {
	ctx := context.Background()
	if h.neverTaken() {
		return
	}
	held := h.held()
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.Debug("released", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "err", err)
	}
	l.emit(ctx, Event{Type: EventRelease, Name: h.lease.name, Kind: h.lease.kind.String(), Token: h.token, HeldFor: held, Owner: h.lease.owner, Err: err})
	var lost *LostError
	if errors.As(err, &lost) {
		l.reportLoss(h, lost.Reason, err)
	}
}

func (l *Locker) reportLoss(h *hold, reason driver.Reason, err error) {
	if h.neverTaken() {
		return
	}
	held := h.held()
	l.log.Error("lost", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "reason", reason, "err", err)
	l.emit(context.Background(), Event{Type: EventLoss, Name: h.lease.name, Kind: h.lease.kind.String(), Token: h.token, HeldFor: held, Reason: reason, Leased: h.lease.isFixed(), Owner: h.lease.owner, Err: err})
}

// reportWait reports that the acquisition waits. Only the first call for an acquisition has
// an effect.
func (a *acquisition) reportWait(ctx context.Context) {
	if a.waitReported {
		return
	}
	a.waitReported = true
	a.locker.emit(ctx, Event{Type: EventWait, Name: a.claim.Name, Kind: a.kind.String()})
}

func (a *acquisition) reportWake(ctx context.Context, notified bool) {
	a.locker.emit(ctx, Event{Type: EventWake, Name: a.claim.Name, Kind: a.kind.String(), Notified: notified})
}

func (l *Locker) emitCall(ctx context.Context, op string, c *driver.Claim, took time.Duration, err error) {
	if l.observe != nil {
		l.emit(ctx, Event{Type: EventCall, Name: c.Name, Kind: kindOf(c).String(), Op: op, Took: took, Err: err})
	}
}

// reportIndeterminate reports what became of a call that had no answer. The parameter
// `resolved` is true if the result of the call is certain now.
func (l *Locker) reportIndeterminate(op string, c *driver.Claim, resolved bool) {
	if l.observe == nil {
		return
	}
	l.emit(context.Background(), Event{Type: EventIndeterminate, Name: c.Name, Kind: kindOf(c).String(), Op: op, Resolved: resolved})
}
