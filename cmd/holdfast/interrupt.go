package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/procgroup"
)

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal os.Signal }

func (i *interruption) Error() string { return "interrupted by " + i.signal.String() }

// status is what shells report of a program that the signal ended.
func (i *interruption) status() int {
	number, _ := i.signal.(syscall.Signal)
	return 128 + int(number)
}

// interruptible returns a context that ends with ctx or when a signal comes that
// ends programs; others are dropped. The function that it returns gives the
// signals back to the caller, and does nothing the second time.
func interruptible(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	enough, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-signals:
				if procgroup.Ends(sig) && sig != procgroup.Suspending() {
					cancel(&interruption{signal: sig})
					return
				}
			case <-enough:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		close(enough)
		<-done
		cancel(nil)
	})
}

// interruptOf returns the signal that ended ctx, nil if none did.
func interruptOf(ctx context.Context) *interruption {
	var i *interruption
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}
