package supervise

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
)

// Interruption is the cause of a context that a signal ended.
type Interruption struct{ signal os.Signal }

// Error implements error.
func (i *Interruption) Error() string { return "interrupted by " + i.signal.String() }

// Status returns the exit status that shells report for a program that the signal ended.
func (i *Interruption) Status() int {
	number, _ := i.signal.(syscall.Signal)
	return 128 + int(number)
}

// Interruptible returns a context that ends with ctx, or when a signal arrives that ends
// programs. It ignores other signals. The caller must call the function that it returns:
// after that, signals is free for other readers. A second call does nothing.
func Interruptible(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	enough, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-signals:
				if procgroup.Ends(sig) && sig != procgroup.Suspending() {
					cancel(&Interruption{signal: sig})
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

// InterruptOf returns the signal that ended ctx, or nil if no signal did.
func InterruptOf(ctx context.Context) *Interruption {
	var i *Interruption
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}
