package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// renew makes one call for a batch of holds and brings the answers home. It runs
// beside the keeper's goroutine.
func (k *keeper) renew(batch []*lease) {
	start := k.locker.now()
	answers, err := k.call(batch, start)
	if errors.Is(err, errPanic) && len(batch) > 1 {
		k.renewEach(batch)
		return
	}
	k.land(batch, start, answers, err)
}

// renewEach renews the holds of a batch one by one: one of them made the store's
// code panic, and must not take the others along.
func (k *keeper) renewEach(batch []*lease) {
	for i := range batch {
		one := batch[i : i+1]
		start := k.locker.now()
		answers, err := k.call(one, start)
		k.settle(one, start, answers, err)
	}
	k.arrive(batch)
}

// errPanic says that a Backend panicked.
var errPanic = errors.New("the renewal panicked")

// call asks the store to renew a batch.
func (k *keeper) call(batch []*lease, start moment) (answers []driver.Renewal, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	k.mu.Lock()
	f, failures := batch[0].renewing.flight, batch[0].renewing.failures
	k.mu.Unlock()
	claims := make([]driver.Claim, len(batch))
	for i, l := range batch {
		claims[i] = l.claim(start.mono)
	}
	ctx := k.locker.bound(f.ctx, attemptTimeout(k.locker.ttl, int(failures)))
	defer ctx.End()
	began := k.locker.watch()
	answers, err = k.locker.backend.Renew(ctx, claims)
	k.locker.reportCall(ctx, OpRenew, &claims[0], began, err)
	if err == nil && len(answers) != len(claims) {
		err = fmt.Errorf("%s answered %d of %d renewals", k.locker.info.Name, len(answers), len(claims))
	}
	return answers, err
}

// land brings home a batch: the answers, then the holds.
func (k *keeper) land(batch []*lease, start moment, answers []driver.Renewal, err error) {
	k.settle(batch, start, answers, err)
	k.arrive(batch)
}

// settle records the answers of one call.
func (k *keeper) settle(batch []*lease, start moment, answers []driver.Renewal, err error) {
	for i, l := range batch {
		answer := driver.Renewal{Err: err}
		if err == nil {
			answer = answers[i]
		}
		switch {
		case answer.Err == nil:
			k.succeeded(l, start, answer.ValidFor)
		case isGone(answer.Err):
			k.locker.reportRenewal(l.current(), l.remaining(k.locker.elapsed()), answer.Err)
			_ = l.lose(reasonOf(answer.Err), answer.Err)
		case errors.Is(answer.Err, errPanic):
			_ = l.lose(driver.Unreachable, answer.Err)
		default:
			k.failed(l, answer.Err)
		}
	}
}

func (k *keeper) succeeded(l *lease, start moment, validFor time.Duration) {
	margin, held := l.renewed(start, validFor)
	if !held {
		return
	}
	k.mu.Lock()
	l.renewing.failures, l.renewing.err = 0, nil
	if !l.fixed && l.renewing.renewAt == 0 { // else the clock jumped meanwhile, and it is due again
		l.renewing.renewAt = k.onGrid(start.mono + k.period())
	}
	k.mu.Unlock()
	k.locker.reportRenewal(l.current(), margin, nil)
}

func (k *keeper) failed(l *lease, err error) {
	k.mu.Lock()
	l.renewing.failures++
	l.renewing.err = err
	delay := retryDelay(int(l.renewing.failures), min(pollCap, k.period()/4))
	l.renewing.renewAt = k.locker.elapsed() + delay
	k.mu.Unlock()
	if left := l.remaining(k.locker.elapsed()); left > 0 {
		k.locker.reportRenewal(l.current(), left, err)
	}
}

// arrive ends the flight of a batch and plans its holds anew.
func (k *keeper) arrive(batch []*lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	batch[0].renewing.flight.end()
	for _, l := range batch {
		l.renewing.flight = nil
		k.renewAt(l, l.renewing.renewAt)
	}
}
