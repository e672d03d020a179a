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
	// heartbeat is how often a client reports its holds and waits. Waits that are younger than a
	// heartbeat are left out.
	heartbeat = 2 * time.Second
	// reportAge is the age from which holds are reported. Most locks are held for a shorter time,
	// so they cause no report. A person who lists the locks a second after a grant finds it.
	reportAge = 500 * time.Millisecond
	// reportLimit bounds one call that reports to the store.
	reportLimit = time.Second

	// A report has at most reportHolds holds and reportWaits waits: the oldest ones.
	reportHolds = 64
	reportWaits = 32
)

// reports publishes holds and waits in the store, for operators. The function of a separate
// timer reads the leases and queues, so that reports delay no lock. A grant starts the timer,
// and so do renewals and a goroutine that begins to wait for the store. The timer is set again
// for as long as there is something to report, or a goroutine waits.
type reports struct {
	locker *Locker
	store  driver.Reporter // nil if the store keeps no reports

	// running is true while the timer is set or beat runs. Only beat uses the field `reported`.
	running  atomic.Bool
	reported bool // the store may still keep the last report
}

func (r *reports) init(l *Locker) {
	r.locker = l
	if !l.anonymous {
		r.store, _ = l.backend.(driver.Reporter)
	}
}

// start sets the timer, if it is not set yet. It does nothing if the store neither keeps
// reports nor sends notices.
func (r *reports) start() {
	if (r.store != nil || r.locker.notices.store != nil) && !r.running.Load() && r.running.CompareAndSwap(false, true) {
		time.AfterFunc(reportAge, r.beat)
	}
}

// beat sends a report. When there is nothing to report any more, it sends one empty report.
// When a hold is older than a heartbeat, beat also makes the client listen for forced unlocks.
func (r *reports) beat() {
	report, young := r.collect(r.locker.clock.Now())
	some := len(report.Holds)+len(report.Waits) > 0
	if r.store != nil && (some || r.reported) {
		r.send(report)
		r.reported = some
	}
	if len(report.Holds) > 0 && report.Holds[0].HeldFor >= heartbeat {
		r.locker.notices.start()
	}
	switch {
	case some:
		time.AfterFunc(heartbeat, r.beat)
	case young:
		time.AfterFunc(heartbeat-reportAge, r.beat)
	default:
		r.running.Store(false)
	}
}

// send sends a report to the store. An error or a panic of that call affects no lock.
func (r *reports) send(report driver.Report) {
	l := r.locker
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("the store panicked while it recorded what this client holds", "backend", l.info.Name, "panic", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), reportLimit)
	defer cancel()
	if err := r.store.Report(ctx, report); err != nil {
		l.log.Debug("the store did not record what this client holds and waits for, so other programs cannot see it", "backend", l.info.Name, "err", err)
	}
}

// collect returns a report of the holds that have lasted for reportAge or longer, the longest
// first, and of the waits that have lasted for a heartbeat or longer. It also reports whether
// there are waits that are younger.
func (r *reports) collect(now clock.Instant) (report driver.Report, young bool) {
	l := r.locker
	report = driver.Report{Client: l.id, Note: l.note, TTL: l.ttl}

	leases := l.oldLeases(now - reportAge)
	report.MoreHolds = leases.more
	for _, one := range leases.list {
		hold, held := one.reported(now)
		if held && hold.HeldFor >= reportAge {
			report.Holds = append(report.Holds, hold)
			report.TTL = max(report.TTL, one.ttl)
		}
	}
	slices.SortStableFunc(report.Holds, func(a, b driver.ReportedHold) int { return cmp.Compare(b.HeldFor, a.HeldFor) })

	waits, young := r.waits(now)
	report.MoreWaits = waits.more
	for _, one := range waits.list {
		report.Waits = append(report.Waits, driver.ReportedWait{
			Name: one.key.name, Mode: one.key.kind.mode(), ReadWrite: one.key.kind.readWrite(),
			Waited: now - one.since, Count: one.count,
		})
	}
	return report, young
}

// oldLeases returns the oldest of the leases that were granted at the instant `before` or
// earlier.
func (l *Locker) oldLeases(before clock.Instant) oldest[*lease] {
	found := oldest[*lease]{most: reportHolds}
	l.renewals.Each(func(i renew.Item) bool {
		if one, ok := i.(*lease); ok && one.first.began <= before {
			found.add(one, func(l *lease) clock.Instant { return l.first.began })
		}
		return true
	})
	return found
}

// waitedFor is a queue in which goroutines wait.
type waitedFor struct {
	key   queueKey
	since clock.Instant
	count int
}

// waits returns the queues in which goroutines have waited for a heartbeat or longer. If
// there are too many, it returns those with the longest wait. It also reports whether goroutines
// wait that began later.
func (r *reports) waits(now clock.Instant) (found oldest[waitedFor], young bool) {
	found.most = reportWaits
	r.locker.queues.Scan(now, func(key queueKey, since clock.Instant, n int) {
		if now-since < heartbeat {
			young = true
			return
		}
		found.add(waitedFor{key, since, n}, func(w waitedFor) clock.Instant { return w.since })
	})
	return found, young
}

// oldest is a list of the oldest items, in the order of their age.
type oldest[T comparable] struct {
	most int
	list []T
	more int // how many items were left out
}

// add adds an item that is old enough, unless it is in the list already.
func (o *oldest[T]) add(one T, since func(T) clock.Instant) {
	full := len(o.list) == o.most
	switch {
	case full && since(one) >= since(o.list[o.most-1]): // true for most items, so it comes first
		o.more++
		return
	case slices.Contains(o.list, one):
		return
	case full:
		o.more++
		o.list = o.list[:o.most-1]
	}
	at, _ := slices.BinarySearchFunc(o.list, since(one), func(e T, t clock.Instant) int {
		return cmp.Compare(since(e), t)
	})
	o.list = slices.Insert(o.list, at, one)
}

// notices listens to the store for forced unlocks, and for the end of this client's session. So
// a holder is notified within a round trip, and not only at its next renewal. It listens only
// while some hold is older than a heartbeat, so a short lock causes no further call. If a
// notice is lost, the next renewal finds out that the hold has ended.
//
// Lock order: notices.mu before the mutex of Locker.renewals.
type notices struct {
	locker *Locker
	store  driver.Notifier // nil if the store sends no notices

	listening atomic.Bool // true if the field `stop` is not nil

	mu      sync.Mutex
	stop    context.CancelFunc // nil while it does not listen
	useless bool               // the store refuses to send notices
	logged  bool               // an error of listening was logged
}

func (n *notices) init(l *Locker) {
	n.locker = l
	n.store, _ = l.backend.(driver.Notifier)
}

// start begins to listen, unless notices listens already, nothing is held any more, or the
// store sends no notices.
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
	if n.idle() { // the last hold may have ended before the line above: then nothing has called end
		n.endLocked()
	}
	go func() {
		defer close(done)
		n.listen(ctx)
	}()
}

// end stops listening, if nothing is held.
func (n *notices) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle() {
		n.endLocked()
	}
}

// idle reports whether nothing is held.
func (n *notices) idle() bool {
	return n.locker.renewals.Find(func(renew.Item) bool { return true }) == nil
}

// endLocked stops listening.
func (n *notices) endLocked() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
		n.listening.Store(false)
	}
}

// listen listens until ctx ends, or until the store refuses.
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
		n.logged = true
		n.useless = useless
		n.mu.Unlock()
		if first {
			l.log.Debug("this client notices a forced unlock only at its next renewal", "backend", l.info.Name, "err", err)
		}
		if useless || !retry.Sleep(ctx, heartbeat) {
			return
		}
	}
}

// notify listens until the store stops, and returns the error of the store. A panic of the
// store affects no lock: notify returns it as an error.
func (n *notices) notify(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	return n.store.Notify(ctx, n.locker.id, n.locker.hint)
}

// hint makes renewals due now. If seq is 0, these are all renewals of the Locker. Otherwise it
// is the renewal of the claim with the number seq, if that claim is held.
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
