//go:build unix

package sqltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// AdvisoryLock is what the advisory locks of all databases can do.
type AdvisoryLock interface {
	// Context ends with ctx and with the hold.
	Context(ctx context.Context) context.Context
	// Err says why the hold has ended.
	Err() error
	// Unlock ends it.
	Unlock() error
}

// MustBeLost requires that the loss is noticed, and that Unlock reports it.
func MustBeLost(t *testing.T, lock AdvisoryLock, within time.Duration, why driver.Reason) {
	t.Helper()
	ctx := lock.Context(t.Context())
	select {
	case <-ctx.Done():
	case <-time.After(within):
		t.Errorf("the loss was not noticed within %v", within)
	}
	for what, err := range map[string]error{"context": context.Cause(ctx), "Err": lock.Err(), "Unlock": lock.Unlock()} {
		var lost *holdfast.LostError
		if !errors.As(err, &lost) || lost.Reason != why {
			t.Errorf("%s after the loss: got %v, want a LostError, %s", what, err, why)
		}
	}
}
