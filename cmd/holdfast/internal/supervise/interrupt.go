package supervise

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal syscall.Signal }

// Error implements error.
func (i interruption) Error() string { return "interrupted by " + i.signal.String() }

// Interruptible returns a context that ends with ctx, or when this program gets one of the
// signals INT, TERM and HUP. The caller must call the returned function.
func Interruptible(ctx context.Context) (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctx, done := interruptible(ctx, signals)
	return ctx, func() {
		signal.Stop(signals)
		done()
	}
}

// interruptible returns a context that ends with ctx, or when a signal arrives that ends
// programs. It ignores other signals. The caller must call the returned function. After that
// call, others can read from the channel `signals`. A second call does nothing.
func interruptible(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	enough := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case sig := <-signals:
				if number, _ := sig.(syscall.Signal); procgroup.Ends(number) {
					cancel(interruption{number})
					return
				}
			case <-enough:
				return
			}
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(enough)
		reader.Wait()
		cancel(nil)
	})
}

// InterruptStatus returns 128+n if signal n ended ctx, as shells report the end of a program.
// Otherwise it returns 0.
func InterruptStatus(ctx context.Context) int {
	if i, ok := errors.AsType[interruption](context.Cause(ctx)); ok {
		return 128 + int(i.signal)
	}
	return 0
}

// pause waits for the time d, or until ctx ends. If a signal that ends programs arrives before,
// pause returns an error with the exit status.
func (s *session) pause(ctx context.Context, d time.Duration) error {
	return s.unlessInterrupted(ctx, func(ctx context.Context) error {
		retry.Sleep(ctx, d)
		return nil
	}, func() {})
}
