package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/internal/must"
)

// ofKind returns how a lock of that kind is taken. A semaphore has one permit.
func ofKind(l *holdfast.Locker, k worker.Kind, name string) worker.Call {
	lock, _ := k.Calls(l, name, 1)
	return lock
}

// eachKind runs test for each kind of lock on each adapter, and checks that
// nothing of the lock "stock" is left.
func eachKind(t *testing.T, test func(s *subject, k worker.Kind)) {
	for _, k := range []worker.Kind{worker.Fair, worker.Reader, worker.Writer, worker.Permit} {
		t.Run(string(k), func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				test(s, k)
				if k == worker.Permit {
					s.forget("stock", 1)
				}
				gone(s, s.server.Admin, time.Second)
			})
		})
	}
}

// warmKind is warm for a kind of lock.
func (s *subject) warmKind(l *holdfast.Locker, k worker.Kind) {
	s.Helper()
	for _, kind := range []worker.Kind{k, k.Rival()} {
		must.Unlock(s, s.get(ofKind(l, kind, "warm")))
		if kind == worker.Permit {
			s.forget("warm", 1)
		}
	}
}

func (s *subject) get(lock worker.Call) *holdfast.Lock {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	k, err := lock(ctx)
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	return k
}

// wantOneHold fails unless Redis says that "stock" is held once, with a count of
// one.
func (s *subject) wantOneHold(k worker.Kind) {
	s.Helper()
	if k == worker.Permit {
		if out, free := s.server.Int("ZCARD", "{stock}:timeout"), s.server.String("GET", "stock"); out != 1 || free != "0" {
			s.Errorf("%d permits out and %s free, want 1 and 0", out, free)
		}
		return
	}
	fields := s.server.Map("HGETALL", "stock")
	delete(fields, "mode")
	for owner, count := range fields {
		if len(fields) != 1 || count != "1" {
			s.Errorf("%q holds with count %s, want one owner with 1: %v", owner, count, fields)
		}
	}
	if len(fields) == 0 {
		s.Error("nobody holds it")
	}
}

// A claim that is forced, and whose answer is lost, is made again: its caller has done
// nothing wrong.
func TestKindsForcedBeforeTheAnswer(t *testing.T) {
	eachKind(t, func(s *subject, k worker.Kind) {
		l := s.locker(nil)
		s.warmKind(l, k)
		rule := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, k.Scripts().Acquire)), faultproxy.HoldReply())
		locked := make(chan *holdfast.Lock, 1)
		go func() {
			lock, err := ofKind(l, k, "stock")(s.Context())
			if err != nil {
				s.Error(err)
			}
			locked <- lock
		}()
		rule.Wait(s, 1)
		c := s.console(nil)
		if err := c.ForceUnlock(s.Context(), "stock", lookAt(s, c, "stock").Holds[0].Holder, "stuck"); err != nil {
			s.Error(err)
		}
		s.proxy.CutAll() // before the call is given up, and made again
		if lock := <-locked; lock != nil {
			s.wantOneHold(k)
			must.Unlock(s, lock)
		}
	})
}

// An acquire that is given up while its answer is under way leaves nothing, and
// is in nobody's way.
func TestKindsGivenUpWithoutAnAnswer(t *testing.T) {
	eachKind(t, func(s *subject, k worker.Kind) {
		l := s.locker(nil)
		s.warmKind(l, k)
		rule := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, k.Scripts().Acquire)), faultproxy.HoldReply())
		ctx, cancel := context.WithCancel(s.Context())
		go func() { <-rule.Fired(); cancel() }()
		_, err := ofKind(l, k, "stock")(ctx)
		if !errors.Is(err, context.Canceled) {
			s.Errorf("got %v, want the context's error", err)
		}
		rule.Wait(s, 1)
		rule.Release()
		freed := time.Now()
		must.Unlock(s, s.get(ofKind(s.other(nil), k.Rival(), "stock")))
		within(s, "the next one waited", time.Since(freed), time.Second)
	})
}

// A wait that is cancelled leaves no trace, and the next waiter gets the lock.
func TestKindsCancelledWait(t *testing.T) {
	eachKind(t, func(s *subject, k worker.Kind) {
		l := s.locker(nil)
		s.warmKind(l, k)
		holder := s.get(ofKind(s.other(nil), k.Rival(), "stock"))
		before := s.ofStock()

		ctx, cancel := context.WithCancel(s.Context())
		over := make(chan time.Time, 1)
		time.AfterFunc(300*time.Millisecond, func() { over <- time.Now(); cancel() })
		_, err := ofKind(l, k, "stock")(ctx)
		within(s, "the call returned after its context", time.Since(<-over), 350*time.Millisecond) // it slept for longer
		if !errors.Is(err, context.Canceled) {
			s.Errorf("got %v, want the context's error", err)
		}
		if !await.Eventually(time.Second, func() bool { return slices.Equal(s.ofStock(), before) }) {
			s.Errorf("keys after the wait: %q, before: %q", s.ofStock(), before)
		}

		got := make(chan *holdfast.Lock, 1)
		go func() {
			next, err := ofKind(l, k, "stock")(s.Context())
			if err != nil {
				s.Errorf("the next: %v", err)
			}
			got <- next
		}()
		time.Sleep(100 * time.Millisecond) // it waits
		must.Unlock(s, holder)
		freed := time.Now()
		if next := <-got; next != nil {
			within(s, "the next one waited", time.Since(freed), time.Second)
			must.Unlock(s, next)
		}
	})
}

// forget waits until the counter of a semaphore says that all permits are free,
// and deletes it: Redisson keeps it forever.
func (s *subject) forget(name string, permits int) {
	s.Helper()
	if !await.Eventually(time.Second, func() bool { return s.server.String("GET", name) == fmt.Sprint(permits) }) {
		s.Errorf("the counter of %q says %s, want %d", name, s.server.String("GET", name), permits)
	}
	s.server.Do("DEL", name)
}

// ofStock returns the keys of locks.
func (s *subject) ofStock() []string { return lockKeys(s.server.Admin) }

// holdOne holds one lock until it is stopped or loses it.
func holdOne(w *workload) error {
	r := w.Kind.Request(w.locker(), w.Name, 1)
	r.Lease = w.TTL
	k, op, err := w.log.Take(w.ctx, r)
	if err != nil {
		return err
	}
	<-k.Context(w.ctx).Done()
	_ = w.log.Give(k, op) // it is in the history
	return nil
}
