package demo

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// stall takes the lock. The demo then pauses the process until the lock is lost. When the
// process continues, it makes the mistake that fencing is for: it writes nevertheless.
func (w *worker) stall(ctx context.Context) error {
	lock, err := w.locker.Lock(ctx, w.lock)
	if err != nil {
		return err
	}
	whileHeld := lock.Context(ctx)
	w.report(message{Kind: held, Token: lock.Token()})

	<-whileHeld.Done()
	cause := context.Cause(whileHeld)
	if ctx.Err() != nil { // the demo was stopped: nothing was lost
		return errors.Join(ctx.Err(), lock.Unlock())
	}
	w.report(message{Kind: lost, Text: cause.Error(), Lost: errors.Is(cause, holdfast.ErrLost)})

	if err := w.writeLedger(ctx, lock.Token()); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	w.tellUnlock(lock.Unlock())
	return nil
}

// inherit waits for the lock, writes, and keeps the lock until the demo sends "finish".
func (w *worker) inherit(ctx context.Context) (err error) {
	lock, err := w.locker.Lock(ctx, w.lock)
	if err != nil {
		return err
	}
	w.report(message{Kind: held, Token: lock.Token()})
	if err := w.writeLedger(lock.Context(ctx), lock.Token()); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	if err := w.await(lock.Context(ctx), wordFinish); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	w.tellUnlock(lock.Unlock())
	return nil
}

func (w *worker) writeLedger(ctx context.Context, token uint64) error {
	accepted, seen, err := w.shop.write(ctx, w.Name, token)
	if err != nil {
		return err
	}
	answer := refused
	if accepted {
		answer = wrote
	}
	w.report(message{Kind: answer, Token: seen})
	return nil
}

func (w *worker) tellUnlock(err error) {
	m := message{Kind: unlocked, Lost: errors.Is(err, holdfast.ErrLost)}
	if err != nil {
		m.Text = err.Error()
	}
	w.report(m)
}
