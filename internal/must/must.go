// Package must takes and releases locks in tests. If a function of this package cannot do what
// it should, the test fails.
package must

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// limit is how long a test waits for a lock that it is sure to get. It is longer than any
// lease in a bubble of synctest.
const limit = 2 * time.Minute

// Lock takes a lock.
func Lock(t testing.TB, l *holdfast.Locker, name string, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		t.Fatalf("Lock(%q): %v", name, err)
	}
	return lock
}

// Unlock releases a lock.
func Unlock(t testing.TB, k *holdfast.Lock) {
	t.Helper()
	if err := k.Unlock(); err != nil {
		t.Fatalf("Unlock(%q): %v", k.Name(), err)
	}
}

// UnlockAll releases several locks together.
func UnlockAll(t testing.TB, all holdfast.Locks) {
	t.Helper()
	if err := all.Unlock(); err != nil {
		t.Fatalf("Unlock of %d locks: %v", len(all), err)
	}
}

// Drain waits for the releases of a Locker that run in the background.
func Drain(t testing.TB, l *holdfast.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.Drain(ctx); err != nil {
		t.Errorf("Drain: %v", err)
	}
}
