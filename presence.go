package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	// heartbeat is how often a client says what it holds and waits for, and how
	// old that has to be: most locks are over before, and cost nothing.
	heartbeat = 2 * time.Second
	// reportLimit bounds one call that reports to the store.
	reportLimit = time.Second

	// So many holds and waits are notified, the oldest of them.
	reportHolds = 64
	reportWaits = 32
)

// reports publishes holds and waits in the store, for people. It looks at
// the leases and queues from a timer of its own, so that no lock pays for it. The
// scheduler of renewals and waiters for the store start the timer; it goes on for as long
// as there is something to tell.
type reports struct {
	locker *Locker
	store  driver.Reporter // nil if the store has no use for it

	// running is true while the timer is set or beat runs. Only beat uses reported.
	running  atomic.Bool
	reported bool // what was reported last is still kept
}

func (r *reports) init(l *Locker) {
	r.locker = l
	if !l.anonymous {
		r.store, _ = l.backend.(driver.Reporter)
	}
}

// start sets the timer, if it is not set. It is for those who have been holding
// or waiting for a while.
func (r *reports) start() {
	if (r.store != nil || r.locker.notices.store != nil) && !r.running.Load() && r.running.CompareAndSwap(false, true) {
		time.AfterFunc(heartbeat, r.beat)
	}
}

// beat reports what there is to report, and once that there is no more. From the first
// hold that is old enough, forced unlocks are listened for.
func (r *reports) beat() {
	report := r.collect(r.locker.clock.Now())
	some := len(report.Holds)+len(report.Waits) > 0
	if r.store != nil && (some || r.reported) {
		r.send(report)
		r.reported = some
	}
	if len(report.Holds) > 0 {
		r.locker.notices.start()
	}
	if some {
		time.AfterFunc(heartbeat, r.beat)
		return
	}
	r.running.Store(false)
}

// send makes the call. Its failure, or panic, is no lock's trouble.
func (r *reports) send(report driver.Report) {
	l := r.locker
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("the store panicked while it recorded what is held", "backend", l.info.Name, "panic", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), reportLimit)
	defer cancel()
	if err := r.store.Report(ctx, report); err != nil {
		l.log.Debug("what is held and waited for is not shown to others", "backend", l.info.Name, "err", err)
	}
}

// collect returns what is held and waited for since a heartbeat or longer.
func (r *reports) collect(now clock.Instant) driver.Report {
	l := r.locker
	report := driver.Report{Client: l.id, Note: l.note, TTL: l.ttl}

	leases := l.oldLeases(now - heartbeat)
	report.MoreHolds = leases.more
	for _, one := range leases.list {
		if hold, ok := one.reported(now); ok {
			report.Holds = append(report.Holds, hold)
			report.TTL = max(report.TTL, one.ttl)
		}
	}
	slices.SortStableFunc(report.Holds, func(a, b driver.ReportedHold) int { return cmp.Compare(b.HeldFor, a.HeldFor) })

	waits := r.waits(now)
	report.MoreWaits = waits.more
	for _, one := range waits.list {
		report.Waits = append(report.Waits, driver.ReportedWait{
			Name: one.key.name, Mode: one.key.kind.mode(), ReadWrite: one.key.kind.readWrite(), Waited: now - one.since, Count: one.count,
		})
	}
	return report
}

// reported describes the hold that has the lease, if it has had it for as long as
// a heartbeat.
func (l *lease) reported(now clock.Instant) (driver.ReportedHold, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holder
	return driver.ReportedHold{
		Name: l.name, Owner: l.owner, Mode: l.kind.mode(), Fair: l.kind == fair, ReadWrite: l.kind.readWrite(), Token: h.token, HeldFor: now - h.since,
	}, l.state == leaseHeld && now-h.since >= heartbeat
}

// oldLeases returns the oldest leases of those that were granted at the given instant
// or before.
func (l *Locker) oldLeases(before clock.Instant) oldest[*lease] {
	found := oldest[*lease]{most: reportHolds}
	l.renewals.Each(func(i renew.Item) bool {
		if one, ok := i.(*lease); ok && one.first.since <= before {
			found.add(one, func(l *lease) clock.Instant { return l.first.since })
		}
		return true
	})
	return found
}

// waitedFor is a queue in which somebody waits.
type waitedFor struct {
	key   queueKey
	since clock.Instant
	count int
}

// waits returns the queues in which somebody has waited for a heartbeat or longer, of
// many those with the longest wait.
func (r *reports) waits(now clock.Instant) oldest[waitedFor] {
	found := oldest[waitedFor]{most: reportWaits}
	r.locker.queues.Scan(now, func(key queueKey, since clock.Instant, n int) {
		if now-since >= heartbeat {
			found.add(waitedFor{key, since, n}, func(w waitedFor) clock.Instant { return w.since })
		}
	})
	return found
}

// oldest is a list of the oldest, the oldest first.
type oldest[T comparable] struct {
	most int
	list []T
	more int // how many were left out
}

// add takes one in, unless it is there.
func (o *oldest[T]) add(one T, since func(T) clock.Instant) {
	full := len(o.list) == o.most
	switch {
	case full && since(one) >= since(o.list[o.most-1]): // as nearly all are: this has to be quick
		o.more++
		return
	case slices.Contains(o.list, one):
		return
	case full:
		o.more++
		o.list = o.list[:o.most-1]
	}
	at, _ := slices.BinarySearchFunc(o.list, since(one), func(e T, t clock.Instant) int { return cmp.Compare(since(e), t) })
	o.list = slices.Insert(o.list, at, one)
}

// notices has the store notify this client of forced unlocks, and of the end of its
// session, so that a holder learns of one in a round trip and not with its next
// renewal. It listens from when a hold is older than a heartbeat until nothing is
// held: a short lock does not pay for it. Nothing depends on it: a hold whose notice
// is lost ends with its next renewal.
//
// Lock order: notices.mu before the mutex of Locker.renewals.
type notices struct {
	locker *Locker
	store  driver.Notifier // nil if the store sends none

	listening atomic.Bool // stop is not nil

	mu      sync.Mutex
	stop    context.CancelFunc // nil while nobody listens
	useless bool               // the store refuses to send any
	logged  bool               // why nobody listens
}

func (n *notices) init(l *Locker) {
	n.locker = l
	n.store, _ = l.backend.(driver.Notifier)
}

// start listens, unless somebody does, or nothing is held any more.
func (n *notices) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.store == nil || n.stop != nil || n.useless {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.stop = func() {
		cancel()
		n.locker.background.Go(func() { <-done })
	}
	n.listening.Store(true)
	if n.idle() { // what is removed from now on calls end, and that waits
		n.endNow()
	}
	go func() {
		defer close(done)
		n.listen(ctx)
	}()
}

// end has nobody listen any more, if nothing is held.
func (n *notices) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle() {
		n.endNow()
	}
}

// idle reports whether nothing is held.
func (n *notices) idle() bool {
	return n.locker.renewals.Find(func(renew.Item) bool { return true }) == nil
}

// endNow has nobody listen any more. The mutex is held.
func (n *notices) endNow() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
		n.listening.Store(false)
	}
}

// listen passes on notices until ctx ends, or the store refuses.
func (n *notices) listen(ctx context.Context) {
	l := n.locker
	for {
		err := n.notify(ctx)
		if ctx.Err() != nil {
			return
		}
		useless := errors.Is(err, errors.ErrUnsupported) || errors.Is(err, driver.ErrRefused)
		n.mu.Lock()
		first := !n.logged
		n.logged, n.useless = true, useless
		n.mu.Unlock()
		if first {
			l.log.Debug("a forced unlock is noticed with the next renewal only", "backend", l.info.Name, "err", err)
		}
		if useless || !retry.Sleep(ctx, heartbeat) {
			return
		}
	}
}

// notify listens as long as the store can. Its panic is no lock's trouble.
func (n *notices) notify(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	return n.store.Notify(ctx, n.locker.id, n.locker.hint)
}

// hint makes the renewal of the lease of a claim due now, if it is held, or of all
// leases where seq is 0.
func (l *Locker) hint(seq uint64) {
	if seq == 0 {
		l.renewals.HurryAll()
		return
	}
	found := l.renewals.Find(func(i renew.Item) bool {
		one, ok := i.(*lease)
		return ok && one.seq == seq
	})
	if found != nil {
		l.renewals.Hurry(found)
	}
}
