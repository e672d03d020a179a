package holdfast

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// EventKind says what an Event reports.
type EventKind string

// Kinds of events.
const (
	EventAcquire EventKind = "acquire" // a Lock or TryLock ended, in a lock or an error
	EventRenew   EventKind = "renew"   // a renewal was answered, or failed
	EventRelease EventKind = "release" // the last Unlock ended
	EventLoss    EventKind = "loss"    // a lock was lost
)

// Event reports one step in a lock's life, for metrics, traces and audit. Fields
// that have no meaning for its kind are zero. Later versions may add fields.
type Event struct {
	Kind    EventKind
	Name    string
	Lock    string // the kind: mutex, fair, read, write or semaphore
	Backend string // the store's name
	Token   uint64

	Waited   time.Duration // acquire: from the call to its end
	Attempts int           // acquire: how often the store was asked
	Held     time.Duration // release, loss: since the acquire
	Margin   time.Duration // renew: what was left until the lock would have counted as lost
	Reason   driver.Reason // loss

	// Err is why the step failed: ErrBusy, a context's error or the store's for
	// an acquire, the store's for a renewal or a release, ErrLost for a loss.
	Err error
}

// observed says that somebody wants to know of what went well.
func (l *Locker) observed(ctx context.Context) bool {
	return l.observe != nil || l.log.Enabled(ctx, slog.LevelDebug)
}

func (l *Locker) emit(ctx context.Context, e Event) {
	if l.observe == nil {
		return
	}
	e.Backend = l.info.Name
	l.observe(ctx, e)
}

func (a *acquisition) report(ctx context.Context, lock *Lock, err error) {
	l := a.locker
	if !l.observed(ctx) {
		return
	}
	e := Event{
		Kind: EventAcquire, Name: a.claim.Name, Lock: a.kind.String(),
		Waited: a.locker.elapsed() - a.began, Attempts: a.tries, Err: err,
	}
	if lock != nil {
		e.Token = lock.Token()
	}
	if err == nil && l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "acquired", "lock", e.Name, "backend", l.info.Name, "token", e.Token, "waited", e.Waited)
	}
	l.emit(ctx, e)
}

func (l *Locker) logWaiting(ctx context.Context, a *acquisition) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "waiting", "lock", a.claim.Name, "backend", l.info.Name,
			"holder", a.last.Holder, "lease", a.last.RetryAfter, "waited", a.locker.elapsed()-a.began)
	}
}

func (l *Locker) reportRenewal(h *hold, margin time.Duration, err error) {
	ctx := context.Background()
	switch {
	case err != nil:
		l.log.Warn("renewal failed, trying again", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "lease", margin, "err", err)
	case margin < l.ttl/renewPerTTL:
		l.log.Warn("renewal late", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "lease", margin)
	case l.log.Enabled(ctx, slog.LevelDebug):
		l.log.Debug("renewed", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "lease", margin)
	}
	l.emit(ctx, Event{Kind: EventRenew, Name: h.lease.name, Lock: h.lease.kind.String(), Token: h.token, Margin: margin, Err: err})
}

func (l *Locker) reportRelease(h *hold, err error) {
	ctx := context.Background()
	if err == nil && !l.observed(ctx) {
		return
	}
	held := h.held()
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.Debug("released", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "err", err)
	}
	l.emit(ctx, Event{Kind: EventRelease, Name: h.lease.name, Lock: h.lease.kind.String(), Token: h.token, Held: held, Err: err})
	var lost *LostError
	if errors.As(err, &lost) {
		l.reportLoss(h, lost.Reason, err)
	}
}

func (l *Locker) reportLoss(h *hold, reason driver.Reason, err error) {
	held := h.held()
	l.log.Error("lost", "lock", h.lease.name, "backend", l.info.Name, "token", h.token, "held", held, "reason", reason, "err", err)
	l.emit(context.Background(), Event{Kind: EventLoss, Name: h.lease.name, Lock: h.lease.kind.String(), Token: h.token, Held: held, Reason: reason, Err: err})
}
