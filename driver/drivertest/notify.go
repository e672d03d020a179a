package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// notifiesOfForce acquires the name, and ends the hold by force, until the client is notified
// of one of these forced unlocks. Several rounds may be necessary, because the check does not
// know when a store begins to listen, and because a notification may get lost.
func notifiesOfForce(p *probe) {
	const rounds = 5
	hints := make(chan uint64, 100)
	stop, deaf := p.listen(func(seq uint64) {
		select {
		case hints <- seq:
		default:
		}
	})
	defer stop()
	for range rounds {
		pause(p.Ctx, 10*time.Millisecond) // after that the store usually listens
		c := p.Claim()
		p.MustGrant(c, "of a free name")
		p.force(c)
		if retryWithin(prompt, func() bool {
			select {
			case seq := <-hints:
				return seq == c.Seq
			case <-deaf:
				return true
			case <-time.After(prompt / 10):
				return false
			}
		}) {
			return
		}
	}
	p.Errorf("Notify: no hint with the sequence number of a claim within %v of its forced unlock, in %d rounds", prompt, rounds)
}

// force ends the hold of c with admin.Source.ForceUnlock, as operators do.
func (p *probe) force(c driver.Claim) {
	p.Helper()
	source := p.b.(admin.Source)
	records, err := source.Get(p.Ctx, c.Name)
	if err != nil || len(records) != 1 || len(records[0].Holds) != 1 {
		p.Fatalf("Get: got %+v and error %v, want one hold", records, err)
	}
	if err := source.ForceUnlock(p.Ctx, c.Name, records[0].Holds[0].Holder, "drivertest"); err != nil {
		p.Fatalf("ForceUnlock: got error %v", err)
	}
}

// listen makes the store notify the client of the check, until the caller calls `stop`. If the
// store cannot notify clients, Notify returns errors.ErrUnsupported, and listen closes the
// channel `deaf`.
func (p *probe) listen(hint func(seq uint64)) (stop func(), deaf <-chan struct{}) {
	ctx, cancel := context.WithCancel(p.Ctx)
	var wg sync.WaitGroup
	never := make(chan struct{})
	wg.Go(func() {
		switch err := p.b.(driver.Notifier).Notify(ctx, p.Client, hint); {
		case errors.Is(err, errors.ErrUnsupported):
			close(never)
		case ctx.Err() == nil:
			p.Errorf("Notify: returned %v before its context ended", err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}, never
}

func notifyHonoursContext(p *probe) {
	none := func(uint64) {}
	stop, deaf := p.listen(none)
	pause(p.Ctx, 50*time.Millisecond)
	p.promptly("Notify whose context ends", stop)
	select {
	case <-deaf:
		return
	default:
	}
	p.promptly("Notify with a cancelled context", func() {
		p.MustBeCancelled(p.b.(driver.Notifier).Notify(p.Cancelled(), p.Client, none), "Notify with a cancelled context")
	})
}
