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

// hold writes to the ledger, works, and writes again. The first write shows the token to the
// ledger, which then refuses smaller tokens. A holder that has lost the lock makes the
// mistake that fencing is for: it writes nevertheless, as soon as the network works.
func (w *worker) hold(ctx context.Context, lock *holdfast.Lock, r *claimResult) error {
	working := lock.Context(ctx)
	_, err := w.write(working, lock.Token())
	if err == nil && !retry.Sleep(working, w.Work) {
		err = context.Cause(working)
	}
	if lost := lock.Err(); lost != nil { // a paused process may notice both at once
		err = lost
	}
	if err == nil || errors.Is(err, holdfast.ErrLost) {
		r.Write, _ = w.write(ctx, lock.Token())
	}
	return err
}

// write writes to the ledger. It repeats a failed write until ctx ends. It returns "accepted"
// or "refused", as the ledger has answered.
func (w *worker) write(ctx context.Context, token uint64) (string, error) {
	for {
		accepted, _, err := w.shop.write(ctx, w.Name, token)
		switch {
		case err == nil && accepted:
			_ = w.shop.keepFor(ctx, tokenCounter) // if this fails, the next write does it
			return "accepted", nil
		case err == nil:
			return "refused", nil
		case !retry.Sleep(ctx, 200*time.Millisecond):
			return "", context.Cause(ctx)
		}
	}
}
