package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// buyAll runs all buyers of this process at the same time. It returns the first error.
func (w *worker) buyAll(ctx context.Context) error {
	errs := make(chan error, w.Buyers)
	for range w.Buyers {
		go func() { errs <- w.buy(ctx) }()
	}
	var first error // all fail for the same reason, so one error is enough
	for range w.Buyers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// buy does what one buyer does. With Locked it takes the lock before.
func (w *worker) buy(ctx context.Context) (err error) {
	var token uint64
	if w.Locked {
		lock, lockErr := w.locker.Lock(ctx, w.lock)
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
	if err := askPaymentProvider(ctx); err != nil {
		return err
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

// askPaymentProvider waits for as long as the answer of a distant server takes.
func askPaymentProvider(ctx context.Context) error {
	answer := time.NewTimer(3*time.Millisecond + rand.N(5*time.Millisecond)) //nolint:gosec // stands for a distant server, protects nothing
	defer answer.Stop()
	select {
	case <-answer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
