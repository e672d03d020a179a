package holdfast

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Unlock gives all of them back and joins the errors. Those of one Locker take
// one round trip, if its store can do that.
func (ks Locks) Unlock() error {
	errs := make([]error, len(ks))
	together := make(map[*Locker][]int)
	var wg sync.WaitGroup
	for i, k := range ks {
		if k.inBatch() {
			l := k.hold.lease.locker
			together[l] = append(together[l], i)
		} else {
			wg.Go(func() { errs[i] = k.Unlock() })
		}
	}
	for l, at := range together {
		for len(at) > 0 {
			n := min(len(at), batchMost)
			some := at[:n]
			at = at[n:]
			wg.Go(func() { l.unlockAll(ks, some, errs) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// inBatch says that a lock can be given back together with others.
func (k *Lock) inBatch() bool {
	if k == nil || k.owned != nil {
		return false
	}
	_, ok := k.hold.lease.locker.backend.(driver.Batcher)
	return ok
}

// unlockAll gives back the locks of l that ks has at the given places, and leaves
// the errors there.
func (l *Locker) unlockAll(ks Locks, at []int, errs []error) {
	claims, ended := make([]driver.Claim, 0, len(at)), make([]int, 0, len(at))
	var passed []*hold
	defer func() { // the observer may be slow
		for _, h := range passed {
			l.reportRelease(h, nil)
		}
	}()
	now := l.clock.Now()
	until := now + retry.TimeoutLeast // the batch ends with the longest lease
	for _, i := range at {
		k := ks[i]
		k.net.Stop()
		if k.hold.passOn() {
			passed = append(passed, k.hold)
		} else if errs[i] = k.hold.finish(); errs[i] == nil {
			claims, ended = append(claims, k.hold.lease.claim(now)), append(ended, i)
			until = max(until, k.hold.lease.unlockBy(now))
		}
	}
	if len(claims) == 0 {
		return
	}
	defer func() { // also if the store's code panics
		for _, i := range ended {
			ks[i].hold.lease.letNext()
		}
	}()
	ctx := l.bound(context.Background(), min(until-now, retry.ReleaseTimeout(l.ttl, 0)))
	defer ctx.End()
	answers := l.backend.(driver.Batcher).ReleaseAll(ctx, claims) //nolint:forcetypeassert // inBatch has checked
	for len(answers) < len(ended) {
		answers = append(answers, retry.ErrNoAnswer)
	}
	var wg sync.WaitGroup
	for j, i := range ended { // first what others wait for
		h, err := ks[i].hold, answers[j]
		if err == nil || retry.Gone(err) {
			h.lease.letNext()
			continue
		}
		wg.Go(func() { errs[i] = h.released(claims[j], l.settleFor(claims[j], err, h.lease.unlockBy(now))) })
	}
	for j, i := range ended {
		l.reportCall(ctx, OpRelease, &claims[j], now, answers[j])
		if err := answers[j]; err == nil || retry.Gone(err) {
			errs[i] = ks[i].hold.released(claims[j], err)
		}
	}
	wg.Wait()
}
