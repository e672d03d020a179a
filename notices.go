package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
)

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
	if !n.listening.Load() {
		return
	}
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
	found := l.renewals.Find(func(i renew.Item) bool { return i.(*lease).seq == seq })
	if found != nil {
		l.renewals.Hurry(found)
	}
}
