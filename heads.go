package holdfast

import "github.com/holdfast-go/holdfast/driver"

// This file is for readers and permits. Several of them can be held at the same time, so their
// queue may have several heads at once. A head that gets its lock admits more heads from the
// queue. A head that finds the name busy goes back to its place in the queue, if another head
// waits for the store already. docs/internals.md explains which heads are admitted.

const (
	// sharedFirst is how many heads ask the store before it has answered any of them. If the
	// name is busy, all of them ask in vain, and each may get a place in the queue of the store.
	sharedFirst = 64

	// sharedMost is how many heads there are at most after some were admitted. In a store with
	// sessions there are at most sharedFirst, because the store reads the claims of all holders
	// and waiters for each answer.
	sharedMost = 1024
)

// admit makes waiters heads of the queue, after the claim was granted. A reader admits all
// waiters, because a lock that one reader can get is free for every reader.
func (a *acquisition) admit() {
	most := sharedMost
	if a.locker.info.SessionTTL > 0 {
		most = sharedFirst
	}
	var waiter, spare driver.Waiter
	a.place.Admit(a.kind == reader, most, func(s *queueState, n int) {
		waiter = s.keepSpare(a.waiter, n)
		spare = s.dropSpare(n)
		s.recordAnswer(a.locker.clock.Now(), nil)
	})
	closeWaiter(waiter)
	closeWaiter(spare)
}

// goBack puts the claim back to its place in the queue and waits there, if another head waits
// for the store. Then the result `back` is true. In that case err is nil when the claim is a
// head again, and not nil if the caller's time is over. A claim that is in the store's own queue
// does not go back: the other head may be behind it there, and the two would wait for each other.
func (a *acquisition) goBack(t callTime) (back bool, err error) {
	if a.place == nil || a.kind.exclusive() {
		return false, nil
	}
	if stays := a.place.Stay(a.queued); stays { // otherwise Stay has made it a waiter again
		return false, nil
	}
	p := a.place
	a.place = nil
	a.beginsToWait()
	if _, _, err := p.Wait(t.limited); err != nil { // no hold is passed on to readers and permits
		if a.denial.failures == 0 { // otherwise the error of the store says more
			a.behindOthers()
		}
		a.leave(p)
		return true, a.outOfTime(t.caller)
	}
	a.place = p
	return true, nil
}
