package holdfast

import (
	"context"
	"math"

	"github.com/holdfast-go/holdfast/driver"
)

// What follows is for claims that can be granted beside others: readers and permits.
// Their queue may have several heads at once. One of those waits for the store, for
// all; who is granted lets others in, and who finds the name busy while somebody waits
// already goes back to its place in the queue.
//
// A reader lets in all who wait, since whatever admits one reader admits every other.
// How many permits are free nobody knows. So a permit that had to be waited for lets in
// one: permits that come back one by one cost two tries each, however many wait for
// them. One that was there at the first try lets in two, so that a queue that moves
// doubles with every trip.

// admit lets others in, since the claim was granted.
func (a *acquisition) admit() {
	n := 1
	switch {
	case a.kind == reader:
		n = math.MaxInt
	case !a.stayed:
		n = 2
	}
	var waiter, spare driver.Waiter
	a.place.Admit(n, func(s *queueState, n int) {
		waiter, spare, s.heard = s.leave(a.waiter, n), s.unused(n), nil
	})
	closeWaiter(waiter)
	closeWaiter(spare)
}

// goBack waits in the queue once more, if somebody else waits for the store.
func (a *acquisition) goBack(ctx, waitCtx context.Context) (back bool, err error) {
	if a.place == nil || a.kind.exclusive() {
		return false, nil
	}
	if a.stayed = a.place.Stay(); a.stayed {
		return false, nil
	}
	p := a.place
	a.place = nil
	if _, _, err := p.Wait(waitCtx); err != nil {
		if a.failures == 0 { // else what the store's trouble was says more
			a.busyHere()
		}
		leave(p)
		return true, a.outOfTime(ctx)
	}
	a.place = p
	return true, nil
}
