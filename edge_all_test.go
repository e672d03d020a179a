package holdfast_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// hangingBatch is a store that answers no batch of releases while it hangs.
type hangingBatch struct {
	*faulty.Store
	hangs atomic.Bool
}

func (h *hangingBatch) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	if !h.hangs.Load() {
		return h.Store.ReleaseAll(ctx, cs)
	}
	errs := make([]error, len(cs))
	for i := range errs {
		errs[i] = faulty.Hang(ctx)
	}
	return errs
}

// LockAll ends with its context, or with Wait, while the store hangs. Drain waits for the
// locks that it had taken.
func TestLockAllEndsWithItsContext(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"wait": context.WithCancel,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				h := &hangingBatch{Store: store}
				l, other := holdfast.New(h, nil), holdfast.New(store.Backend, nil)
				held := must.Lock(t, other, "b")
				ctx, cancel := end(t.Context())
				defer cancel()
				time.AfterFunc(time.Second/2, func() {
					h.hangs.Store(true)
					hangs(store)
				})
				began := time.Now()
				var opts []holdfast.Option
				if name == "wait" {
					opts = []holdfast.Option{holdfast.Wait(time.Second)}
				}
				_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")}, opts...)
				between(t, "LockAll took", time.Since(began), time.Second, 1050*time.Millisecond)
				if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ctx.Err()) && ctx.Err() != nil {
					t.Errorf("got %v, want %v", err, ctx.Err())
				}
				h.hangs.Store(false)
				store.Change(func() { store.OnTry = nil })
				must.Unlock(t, held)
				must.Drain(t, l)
				mustBeFree(t, store, "a")
			})
		})
	}
}

// LockAll returns at once if a lock is lost while it waits for another.
func TestLockAllLosesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l, other := holdfast.New(store, &holdfast.Options{TTL: ttl}), holdfast.New(store.Backend, nil)
		held := must.Lock(t, other, "c")
		time.AfterFunc(time.Second, func() {
			if err := store.ForceUnlock(t.Context(), "b", holders(t, store, "b")[0], "stuck"); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b"), l.Mutex("c")})
		between(t, "LockAll took", time.Since(began), time.Second, time.Second+ttl/3)
		var lost *holdfast.LostError
		if !errors.As(err, &lost) || lost.Name != "b" || lost.Reason != driver.ReasonForced || !strings.Contains(err.Error(), `while LockAll waited for lock "c"`) {
			t.Errorf("got %v, want that b was forced while c was waited for", err)
		}
		if errors.Is(err, context.Canceled) {
			t.Errorf("got %v, and the caller's context has not ended", err)
		}
		must.Unlock(t, held)
		must.Drain(t, l)
		for _, name := range []string{"a", "b", "c"} {
			mustBeFree(t, store, name)
		}
	})
}

// A holder that only waits for the end of a context of its lock keeps the lock. When the
// context has ended, it does not refer to the lock any more.
func TestContextKeepsItsLock(t *testing.T) {
	var r recorder
	l := holdfast.New(memhold.New(), &holdfast.Options{Observe: r.observe})
	ctx, cancel := context.WithCancel(t.Context())
	wait := make(chan struct{})
	go func() {
		defer close(wait)
		<-must.Lock(t, l, "leader").Context(ctx).Done()
	}()
	collected := func(name string) bool {
		return slices.ContainsFunc(r.of(holdfast.EventRelease), func(e holdfast.Event) bool { return e.Name == name })
	}
	collect := func(name string) {
		for deadline := time.Now().Add(10 * time.Second); !collected(name); runtime.Gosched() {
			if runtime.GC(); time.Now().After(deadline) {
				t.Fatalf("%s: no event after 10s", name)
			}
		}
	}
	for len(r.of(holdfast.EventAcquire)) == 0 {
		runtime.Gosched()
	}
	must.Lock(t, l, "dropped")
	collect("dropped")
	if collected("leader") {
		t.Error("the lock was given up, and its holder waits for its end")
	}
	cancel()
	<-wait
	collect("leader")
	must.Drain(t, l)
}
