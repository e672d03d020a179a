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

// EventType says what an Event reports.
type EventType string

// Kinds of events.
const (
	EventWait          EventType = "wait"          // a Lock or TryLock begins to wait; once for each, and EventAcquire follows
	EventWake          EventType = "wake"          // a waiter asks the store again
	EventAcquire       EventType = "acquire"       // a Lock or TryLock ended, in a lock or an error
	EventRenew         EventType = "renew"         // a renewal was answered, or failed
	EventRelease       EventType = "release"       // the last Unlock ended
	EventLoss          EventType = "loss"          // a lock was lost
	EventCall          EventType = "call"          // the store answered a call, or did not in time
	EventIndeterminate EventType = "indeterminate" // a call without an answer was followed up
)

// What a call asks of the store, as in Event.Op.
const (
	OpTry     = "try"     // to take a name
	OpRenew   = "renew"   // to extend leases
	OpRelease = "release" // to give a name back
)

// Event reports one step in a lock's life, for metrics, traces and audit. Fields
// that have no meaning for its kind are zero. Later versions may add fields.
type Event struct {
	Type    EventType
	Name    string
	Kind    string // the kind: mutex, fair, read, write or semaphore
	Backend string // the store's name
	Client  string // the Locker, as a random UUID: its owners begin with it
	Note    string // Options.Note
	Owner   string // the holder of the lock in the store, admin.Holder.Owner: where it was acquired
	Token   uint64

	Blocked   bool          // acquire: EventWait came before
	Waited    time.Duration // acquire: from the call to its end
	Attempts  int           // acquire: how often the store was asked
	HeldFor   time.Duration // release, loss: since the acquire
	Margin    time.Duration // renew: what was left until the lock would have counted as lost
	Remaining time.Duration // renew: what was left of the lease in the store
	Late      bool          // renew: the renewal succeeded when less than a third of the lease was left
	Reason    driver.Reason // loss
	Leased    bool          // loss, renew: its end was fixed, see Lease
	Notified  bool          // wake: the store said so; otherwise the sleep was over
	Op        string        // call, indeterminate
	Took      time.Duration // call
	Resolved  bool          // indeterminate: the store's state is certain now; otherwise it is once the lease ends
	Permits   int           // acquire: how many permits the semaphore has in all, if others than it was described with

	// Err is why the step failed: ErrBusy, a context's error or the store's for
	// an acquire, the store's for a renewal, a release or a call, ErrLost for a
	// loss.
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
		Waited: a.locker.clock.Now() - a.began, Attempts: int(a.tries), Blocked: a.blocked, Err: err,
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
	if !ok { // a waiter reports that itself
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
		Margin: r.Margin, Late: r.Late, Leased: k.fixed, Owner: k.owner, Remaining: r.Left, Err: r.Err,
	})
}

func (l *Locker) reportRelease(h *hold, err error) {
	ctx := context.Background()
	if h.unseen() {
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
	if h.unseen() {
		return
	}
	held := h.held()
	l.log.Error("lost", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "reason", reason, "err", err)
	l.emit(context.Background(), Event{Type: EventLoss, Name: h.lease.name, Kind: h.lease.kind.String(), Token: h.token, HeldFor: held, Reason: reason, Leased: h.lease.fixed, Owner: h.lease.owner, Err: err})
}

// reportWait says once that an acquisition waits.
func (a *acquisition) reportWait(ctx context.Context) {
	if a.blocked {
		return
	}
	a.blocked = true
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

// reportDoubt says how it ended that a call had no answer.
func (l *Locker) reportDoubt(op string, c *driver.Claim, resolved bool) {
	if l.observe == nil {
		return
	}
	l.emit(context.Background(), Event{Type: EventIndeterminate, Name: c.Name, Kind: kindOf(c).String(), Op: op, Resolved: resolved})
}
