package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// buyAll runs all buyers of this process at the same time. It returns the first error.
func (w *worker) buyAll(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var buyers sync.WaitGroup
	for range w.Buyers {
		buyers.Go(func() {
			if err := w.buy(ctx); err != nil {
				fail(err)
			}
		})
	}
	buyers.Wait()
	return context.Cause(ctx)
}

// buy buys an item if one is left. If w.Locked is true, the buyer first takes the lock.
func (w *worker) buy(ctx context.Context) (err error) {
	var token uint64
	if w.Locked {
		lock, lockErr := w.locker.Lock(ctx, w.Keys.Name)
		if lockErr != nil {
			return lockErr
		}
		defer func() { err = errors.Join(err, lock.Unlock()) }()
		ctx, token = lock.Context(ctx), lock.Token()
	}
	stock, err := w.shop.stock(ctx)
	if err != nil {
		return err
	}
	if stock <= 0 {
		w.report(message{Kind: soldOut, Stock: stock})
		return nil
	}
	answer := 3*time.Millisecond + rand.N(5*time.Millisecond) //nolint:gosec // stands for a distant server, protects nothing
	if !retry.Sleep(ctx, answer) {                            // the time until the payment provider answers
		return context.Cause(ctx)
	}
	if err := w.shop.setStock(ctx, stock-1); err != nil {
		return err
	}
	if err := w.shop.recordSale(ctx, token); err != nil {
		return err
	}
	w.report(message{Kind: sold, Stock: stock, Token: token})
	return nil
}

// hold takes the lock, works and releases it.
func (w *worker) hold(ctx context.Context) error {
	asked := time.Now()
	lock, err := w.locker.Lock(ctx, w.Keys.Name)
	if err != nil {
		return err
	}
	granted := time.Now()
	w.report(message{Kind: held, Token: lock.Token(), Took: granted.Sub(asked)})
	if err := w.useLock(ctx, lock); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	m := message{Kind: unlocked}
	if err := lock.Unlock(); errors.Is(err, holdfast.ErrLost) {
		m.Text = err.Error()
	} else if err != nil {
		return err
	}
	m.Took = time.Since(granted)
	w.report(m)
	return nil
}

// useLock first writes to the ledger, unless w.Late is true. After that write the ledger
// refuses smaller tokens. Then useLock works for the time w.Work, or until the demo sends "go".
// If the lock is lost, useLock makes the mistake that fencing tokens protect against: it writes
// nevertheless, as soon as the network works.
func (w *worker) useLock(ctx context.Context, lock *holdfast.Lock) (err error) {
	whileHeld := lock.Context(ctx)
	if !w.Late {
		err = w.write(whileHeld, lock.Token())
	}
	if err == nil {
		select {
		case <-whileHeld.Done():
			err = context.Cause(whileHeld)
		case <-w.steps:
		case <-time.After(w.Work):
		}
	}
	// A paused process may notice the loss and the end of Work at once.
	if lockErr := lock.Err(); ctx.Err() == nil && errors.Is(lockErr, holdfast.ErrLost) {
		w.report(message{Kind: lost, Text: lockErr.Error()})
		return w.write(ctx, lock.Token())
	}
	return err
}

// write writes to the ledger, and reports the answer of the ledger. While the network is cut,
// it tries again until ctx ends.
func (w *worker) write(ctx context.Context, token uint64) error {
	accepted, seen, err := w.shop.write(ctx, w.Name, token)
	for errors.Is(err, errCut) && retry.Sleep(ctx, 200*time.Millisecond) {
		accepted, seen, err = w.shop.write(ctx, w.Name, token)
	}
	switch {
	case err != nil:
		return err
	case accepted:
		_ = w.shop.keepFor(ctx, w.Keys.counter()) // if this fails, the next write calls keepFor again
		w.report(message{Kind: wrote, Token: seen})
	default:
		w.report(message{Kind: refused, Token: seen})
	}
	return nil
}
