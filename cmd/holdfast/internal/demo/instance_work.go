package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// pageLock is the lock that the instances take.
const pageLock = "lock"

// instance takes the lock, once, and reports the result.
func (w *worker) instance(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		for {
			select {
			case word := <-w.words:
				w.cut.Store(word == wordCut)
			case <-ctx.Done():
				w.cut.Store(false) // so that the lock can be released
				return
			}
		}
	})
	defer listener.Wait()
	defer cancel()
	w.report(message{Kind: answered, Result: w.claim(ctx)})
	return nil
}

// claim takes the lock, works and releases it.
func (w *worker) claim(ctx context.Context) *claimResult {
	r := &claimResult{Outcome: outcomeDone}
	began := time.Now()
	lock, err := w.locker.Lock(ctx, pageLock)
	r.Waited = time.Since(began).Milliseconds()
	if err == nil {
		began, r.Token = time.Now(), lock.Token()
		err = w.hold(ctx, lock, r)
		if unlocked := lock.Unlock(); err == nil {
			err = unlocked
		}
		r.Held = time.Since(began).Milliseconds()
	}
	if err != nil {
		r.Outcome, r.Error = outcomeFailed, err.Error()
	}
	if errors.Is(err, holdfast.ErrLost) {
		r.Outcome = outcomeLost
	}
	return r
}

// hold works, and writes at the beginning, which shows the ledger our token: from then on it
// refuses smaller ones. It writes at the end too. A holder that has lost the lock makes the
// mistake that fencing is for: it writes nevertheless, as soon as the network lets it.
func (w *worker) hold(ctx context.Context, lock *holdfast.Lock, r *claimResult) error {
	working := lock.Context(ctx)
	_, err := w.write(working, lock.Token())
	if err == nil && !retry.Sleep(working, w.Work) {
		err = context.Cause(working)
	}
	if lost := lock.Err(); lost != nil { // also if the work ended at the same moment: a paused process wakes to both
		err = lost
	}
	if err == nil || errors.Is(err, holdfast.ErrLost) {
		r.Write, _ = w.write(ctx, lock.Token())
	}
	return err
}

// write writes to the ledger as soon as the network lets it, and tries no longer than ctx
// lasts. It returns what the ledger did with the write.
func (w *worker) write(ctx context.Context, token uint64) (string, error) {
	for {
		accepted, _, err := w.shop.write(ctx, w.Name, token)
		switch {
		case err == nil && accepted:
			_ = w.shop.keepFor(ctx, tokenCounter) // else the next write does it
			return "accepted", nil
		case err == nil:
			return "refused", nil
		case !retry.Sleep(ctx, 200*time.Millisecond):
			return "", context.Cause(ctx)
		}
	}
}
