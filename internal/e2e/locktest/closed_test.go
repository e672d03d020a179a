package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/redishold"
)

// A program that closes its client before its locks are unlocked waits for nothing,
// and gets a message that says what is wrong.
func TestClosedClient(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		conn, shut, err := dial.Server(s.adapter, s.server.Addr(), "", "")
		if err != nil {
			s.Fatal(err)
		}
		l := holdfast.New(redishold.New(conn, nil), &holdfast.Options{TTL: 6 * time.Second})
		var locks [4]*holdfast.Lock
		for i, name := range []string{"one", "two", "three", "lost"} {
			if locks[i], err = l.Lock(s.Context(), name); err != nil {
				s.Fatal(err)
			}
		}
		start := time.Now()
		shut()

		if err := locks[0].Unlock(); !errors.Is(err, driver.ErrClosed) && !errors.Is(err, driver.ErrNotExecuted) {
			s.Errorf("Unlock: got %v, want ErrClosed", err)
		}
		if err := holdfast.Locks(locks[1:3]).Unlock(); !errors.Is(err, driver.ErrClosed) {
			s.Errorf("Locks.Unlock: got %v, want ErrClosed", err)
		}
		ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
		defer cancel()
		for _, lock := range []func(context.Context, string, ...holdfast.Option) (*holdfast.Lock, error){l.Lock, l.TryLock} {
			if _, err := lock(ctx, "four"); !errors.Is(err, driver.ErrClosed) {
				s.Errorf("Lock: got %v, want ErrClosed", err)
			}
		}
		if err := l.Drain(ctx); err != nil {
			s.Errorf("Drain: %v", err)
		}
		// A call may take some moments on a busy machine; waiting would be seconds.
		within(s, "all of it", time.Since(start), 1500*time.Millisecond)

		<-locks[3].Context(ctx).Done()
		var loss *holdfast.LostError
		if !errors.As(locks[3].Err(), &loss) || loss.Reason != driver.ReasonClosed {
			s.Errorf("who held: got %v, want a loss with the reason closed", locks[3].Err())
		}
		_ = locks[3].Unlock()
	})
}
