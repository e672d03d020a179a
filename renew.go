package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// renew makes one call for a batch of holds and brings the answers home. It runs
// beside the keeper's goroutine.
func (k *keeper) renew(batch []*hold) {
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
func (k *keeper) renewEach(batch []*hold) {
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
func (k *keeper) call(batch []*hold, start moment) (answers []driver.Renewal, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	k.mu.Lock()
	f, failures := batch[0].renewing.flight, batch[0].renewing.failures
	k.mu.Unlock()
	claims := make([]driver.Claim, len(batch))
	for i, h := range batch {
		claims[i] = h.current(start.mono)
	}
	ctx, cancel := context.WithTimeout(f.ctx, attemptTimeout(k.locker.ttl, failures))
	defer cancel()
	answers, err = k.locker.backend.Renew(ctx, claims)
	if err == nil && len(answers) != len(claims) {
		err = fmt.Errorf("%s answered %d of %d renewals", k.locker.info.Name, len(answers), len(claims))
	}
	return answers, err
}

// land brings home a batch: the answers, then the holds.
func (k *keeper) land(batch []*hold, start moment, answers []driver.Renewal, err error) {
	k.settle(batch, start, answers, err)
	k.arrive(batch)
}

// settle records the answers of one call.
func (k *keeper) settle(batch []*hold, start moment, answers []driver.Renewal, err error) {
	for i, h := range batch {
		answer := driver.Renewal{Err: err}
		if err == nil {
			answer = answers[i]
		}
		switch {
		case answer.Err == nil:
			k.succeeded(h, start, answer.ValidFor)
		case isGone(answer.Err):
			_ = h.lose(reasonOf(answer.Err), answer.Err)
		case errors.Is(answer.Err, errPanic):
			_ = h.lose(driver.Unreachable, answer.Err)
		default:
			k.failed(h, answer.Err)
		}
	}
}

func (k *keeper) succeeded(h *hold, start moment, validFor time.Duration) {
	margin, held := h.renewed(start, validFor)
	if !held {
		return
	}
	k.mu.Lock()
	h.renewing.failures, h.renewing.err = 0, nil
	if !h.leased && h.renewing.renewAt.IsZero() { // else the clock jumped meanwhile, and it is due again
		h.renewing.renewAt = k.onGrid(start.mono.Add(k.period()))
	}
	k.mu.Unlock()
	k.locker.reportRenewal(h, margin, nil)
}

func (k *keeper) failed(h *hold, err error) {
	k.mu.Lock()
	h.renewing.failures++
	h.renewing.err = err
	delay := retryDelay(h.renewing.failures, min(pollCap, k.period()/4))
	h.renewing.renewAt = time.Now().Add(delay)
	k.mu.Unlock()
	if left := h.remaining(time.Now()); left > 0 {
		k.locker.reportRenewal(h, left, err)
	}
}

// arrive ends the flight of a batch and plans its holds anew.
func (k *keeper) arrive(batch []*hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	batch[0].renewing.flight.end()
	for _, h := range batch {
		h.renewing.flight = nil
		k.renewAt(h, h.renewing.renewAt)
	}
	k.poke()
}
