package locktest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A fair lock that Redis grants at a release has a short lease, and is renewed soon.
// That is no late renewal: nothing is logged.
func TestFairGrantIsNotRenewedLate(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		var log bytes.Buffer
		first := s.other(nil)
		second := s.other(&holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lock, err := first.FairMutex("job").Lock(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		got := make(chan *holdfast.Lock, 1)
		go func() {
			lock, err := second.FairMutex("job").Lock(s.Context())
			if err != nil {
				s.Error(err)
			}
			got <- lock
		}()
		if !await.Eventually(5*time.Second, func() bool { return s.server.Int("LLEN", "redisson_lock_queue:{job}") == 1 }) {
			s.Fatal("the second one is not in the queue")
		}
		must.Unlock(s, lock)
		lock = <-got
		time.Sleep(3 * time.Second) // longer than a third of that lease
		must.Unlock(s, lock)
		if strings.Contains(log.String(), "late") {
			s.Errorf("got the log\n%s", log.String())
		}
	})
}

// A waiter gives up while the server answers nothing for two of its TTLs. Its place in the
// queue, which lasts longer, is gone when the server answers again: the next one gets the
// lock at once.
func TestFairPlaceOutlivesTheTTL(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const queue = "redisson_lock_queue:{job}"
		inQueue := func(n int64) func() bool { return func() bool { return s.server.Int("LLEN", queue) == n } }
		lock, err := s.other(nil).FairMutex("job").Lock(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		l := s.locker(&holdfast.Options{TTL: time.Second})
		ended := make(chan error, 1)
		go func() {
			_, err := l.FairMutex("job").Lock(ctx)
			ended <- err
		}()
		if !await.Eventually(5*time.Second, inQueue(1)) {
			s.Fatal("the waiter is not in the queue")
		}
		s.proxy.Blackhole(true)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("Lock: %v", err)
		}
		time.Sleep(2 * time.Second)
		s.proxy.Blackhole(false)
		if !await.Eventually(5*time.Second, inQueue(0)) { // the lock is held: nobody else drops it
			s.Error("the waiter that gave up is still in the queue")
		}
		must.Unlock(s, lock)
		next, err := s.other(nil).FairMutex("job").TryLock(s.Context())
		if err != nil {
			s.Fatalf("the next one: %v", err)
		}
		must.Unlock(s, next)
	})
}
