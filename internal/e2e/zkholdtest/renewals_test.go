package zkholdtest

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// renewals counts the renewals of locks that succeeded.
type renewals struct {
	mu sync.Mutex
	n  map[uint64]int // by token
}

func (r *renewals) observe(_ context.Context, e holdfast.Event) {
	if e.Type != holdfast.EventRenew || e.Err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[uint64]int{}
	}
	r.n[e.Token]++
}

func (r *renewals) of(lock *holdfast.Lock) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n[lock.Token()]
}

// locker returns a Locker over b, which is drained when t ends.
func (r *renewals) locker(t *testing.T, b driver.Backend) *holdfast.Locker {
	l := holdfast.New(b, &holdfast.Options{Observe: r.observe})
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

// await waits until a lock has been renewed n times more.
func (r *renewals) await(t *testing.T, lock *holdfast.Lock, n int) {
	t.Helper()
	n += r.of(lock)
	await.Until(t, timeout, "the lock is renewed", func() bool { return r.of(lock) >= n })
}
