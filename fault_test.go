package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// faulty is a store whose answers a test can spoil. A nil function means that
// the call goes through.
type faulty struct {
	*memhold.Backend
	mu      sync.Mutex
	try     func(ctx context.Context, c driver.Claim) (driver.Outcome, error)
	renew   func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error)
	release func(ctx context.Context, c driver.Claim) error
	tries   atomic.Int64
	renews  atomic.Int64
}

func newFaulty() *faulty { return &faulty{Backend: memhold.New()} }

func (f *faulty) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	f.tries.Add(1)
	f.mu.Lock()
	spoilt := f.try
	f.mu.Unlock()
	if spoilt != nil {
		return spoilt(ctx, c)
	}
	return f.Backend.Try(ctx, c)
}

func (f *faulty) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	f.renews.Add(1)
	f.mu.Lock()
	spoilt := f.renew
	f.mu.Unlock()
	if spoilt != nil {
		return spoilt(ctx, cs)
	}
	return f.Backend.Renew(ctx, cs)
}

func (f *faulty) Release(ctx context.Context, c driver.Claim) error {
	f.mu.Lock()
	spoilt := f.release
	f.mu.Unlock()
	if spoilt != nil {
		return spoilt(ctx, c)
	}
	return f.Backend.Release(ctx, c)
}

// StartRelease releases in finish.
func (f *faulty) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return -1, f.Release(ctx, c) }
}

// change changes the functions while the store is in use.
func (f *faulty) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

// hang answers nothing until ctx ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func mustLock(t *testing.T, l *holdfast.Locker, name string, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	lock, err := l.Lock(t.Context(), name, opts...)
	if err != nil {
		t.Fatalf("Lock(%q): %v", name, err)
	}
	return lock
}

func mustUnlock(t *testing.T, k *holdfast.Lock) {
	t.Helper()
	if err := k.Unlock(); err != nil {
		t.Fatalf("Unlock(%q): %v", k.Name(), err)
	}
}

// holders returns who the store says holds name.
func holders(t *testing.T, b admin.Source, name string) []admin.Holder {
	t.Helper()
	records, err := b.Get(context.Background(), name)
	if err != nil {
		t.Fatalf("Get(%q): %v", name, err)
	}
	var hs []admin.Holder
	for _, h := range records[0].Holds {
		hs = append(hs, h.Holder)
	}
	return hs
}

// mustBeFree fails unless nobody holds name.
func mustBeFree(t *testing.T, b admin.Source, name string) {
	t.Helper()
	if hs := holders(t, b, name); len(hs) != 0 {
		t.Fatalf("%q is held by %+v, want nobody", name, hs)
	}
}

// between fails unless lo <= got <= hi.
func between(t *testing.T, what string, got, lo, hi time.Duration) {
	t.Helper()
	if got < lo || got > hi {
		t.Fatalf("%s: got %v, want %v to %v", what, got, lo, hi)
	}
}

// Who gives up is told what the store said, also if it has not answered since.
func TestLastWordsOfTheStore(t *testing.T) {
	notNow := errors.New("READONLY")
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.change(func() {
			said := false
			store.try = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
				if !said {
					said = true
					return driver.Outcome{}, notNow
				}
				<-ctx.Done()
				return driver.Outcome{}, ctx.Err()
			}
		})
		l := holdfast.New(store, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := l.Lock(ctx, "job"); !errors.Is(err, notNow) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error and what the store said", err)
		}
	})
}
