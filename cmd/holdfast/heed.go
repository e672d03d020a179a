package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// heedAfter is how long a lock is held before the program listens for word that
	// somebody breaks it: short work does not pay for it.
	heedAfter = 200 * time.Millisecond
	heedAgain = 2 * time.Second // after the store did not listen
)

// heed listens, until the function that it returns is called, for word that
// somebody breaks a lock of locker, so that the command ends at once and not at
// the next renewal.
func heed(locker *holdfast.Locker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := heedAfter; ; pause = heedAgain {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			if err := locker.Heed(ctx); errors.Is(err, errors.ErrUnsupported) {
				return // its renewals tell
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
