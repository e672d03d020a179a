package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// A waiter with RetryRefused goes on after a refusal of 10 minutes. It asks less and less
// often, and reports each refusal.
func TestRetryRefused(t *testing.T) {
	for _, refusal := range []error{driver.ErrDenied, driver.ErrUnable} {
		synctest.Test(t, func(t *testing.T) {
			store := memhold.New()
			conn := store.Connect()
			var log strings.Builder
			tries := 0
			l := holdfast.New(conn, &holdfast.Options{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Observe: func(_ context.Context, e holdfast.Event) {
					if e.Type == holdfast.EventCall && e.Err != nil {
						tries++
					}
				},
			})
			must.Unlock(t, must.Lock(t, l, "job")) // the store has answered once

			denied := fmt.Errorf("WRONGPASS: %w, %w", refusal, driver.ErrNotExecuted)
			conn.Fail(denied)
			time.AfterFunc(10*time.Minute, conn.Restore)
			var pauses []time.Duration
			began := time.Now()
			lock, err := l.Lock(t.Context(), "job", holdfast.RetryRefused(func(err error, pause time.Duration) {
				if !errors.Is(err, denied) {
					t.Errorf("reported %v, want %v", err, denied)
				}
				pauses = append(pauses, pause)
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer must.Unlock(t, lock)
			between(t, "the lock after the repair", time.Since(began), 10*time.Minute, 10*time.Minute+5*time.Second)
			if len(pauses) != tries || tries < 120 || tries > 170 {
				t.Errorf("%d refusals reported for %d tries, want one each 3.75 to 5 s", len(pauses), tries)
			}
			for i := range pauses[:4] {
				between(t, "a pause", pauses[i], 180*time.Millisecond<<i, 250*time.Millisecond<<i)
			}
			if got := strings.Count(log.String(), "level=WARN"); got != tries {
				t.Errorf("%d lines in the log, want %d", got, tries)
			}
		})
	}
}

// What RetryRefused does not outlast is returned at once, and the error has the refusal.
func TestRetryRefusedEnds(t *testing.T) {
	second := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	forever := func(ctx context.Context) (context.Context, context.CancelFunc) { // longer than each case
		return context.WithTimeout(ctx, time.Hour)
	}
	for _, test := range []struct {
		name    string
		refusal error
		fresh   bool // the store has never answered
		limit   func(context.Context) (context.Context, context.CancelFunc)
		opts    []holdfast.Option
		want    error
		after   time.Duration
	}{
		{name: "never answered", refusal: driver.ErrDenied, fresh: true, limit: forever, want: driver.ErrDenied},
		{name: "never answered, but full", refusal: driver.ErrUnable, fresh: true, limit: second, want: context.DeadlineExceeded, after: time.Second},
		{name: "no such database", refusal: driver.ErrRefused, limit: forever, want: driver.ErrRefused},
		{name: "a name that the store cannot keep", refusal: driver.ErrInvalid, limit: forever, want: driver.ErrInvalid},
		{name: "another kind", refusal: errors.Join(driver.ErrDenied, driver.ErrMismatch), limit: forever, want: driver.ErrMismatch},
		{name: "the client is closed", refusal: errors.Join(driver.ErrDenied, driver.ErrClosed), limit: forever, want: driver.ErrClosed},
		{name: "one attempt", refusal: driver.ErrDenied, limit: forever, opts: []holdfast.Option{holdfast.Wait(0)}, want: driver.ErrDenied},
		{name: "Wait is over", refusal: driver.ErrDenied, limit: forever, opts: []holdfast.Option{holdfast.Wait(time.Second)}, want: driver.ErrDenied, after: time.Second},
		{name: "the context is over", refusal: driver.ErrUnable, limit: second, want: context.DeadlineExceeded, after: time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := memhold.New().Connect()
				l := holdfast.New(conn, nil)
				if !test.fresh {
					must.Unlock(t, must.Lock(t, l, "job"))
				}
				conn.Fail(errors.Join(test.refusal, driver.ErrNotExecuted))
				ctx, cancel := test.limit(t.Context())
				defer cancel()
				began := time.Now()
				defer must.Drain(t, l)
				_, err := l.Lock(ctx, "job", append(test.opts, holdfast.RetryRefused(nil))...)
				if !errors.Is(err, test.want) || !errors.Is(err, test.refusal) && !errors.Is(err, driver.ErrRefused) {
					t.Errorf("got %v, want %v and the refusal %v", err, test.want, test.refusal)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
			})
		})
	}
	t.Run("LockAll", func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		_, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a")}, holdfast.RetryRefused(nil))
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
	})
}

// Each kind of call shows that the store accepts this client, also a LockAll.
func TestRetryRefusedAfterLockAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := memhold.New().Connect()
		l := holdfast.New(conn, nil)
		locks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
		if err != nil {
			t.Fatal(err)
		}
		conn.Fail(errors.Join(driver.ErrDenied, driver.ErrNotExecuted))
		time.AfterFunc(time.Second, conn.Restore)
		lock, err := l.Lock(t.Context(), "job", holdfast.RetryRefused(nil))
		if err != nil {
			t.Fatal(err)
		}
		must.Unlock(t, lock)
		if err := locks.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
}

// The refusals of one call are one acquire: one wait begins, and one ends.
func TestRetryRefusedIsOneAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := memhold.New().Connect()
		counts := map[holdfast.EventType]int{}
		var last holdfast.Event
		l := holdfast.New(conn, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			counts[e.Type]++
			if e.Type == holdfast.EventAcquire {
				last = e
			}
		}})
		must.Unlock(t, must.Lock(t, l, "job"))
		conn.Fail(errors.Join(driver.ErrDenied, driver.ErrNotExecuted))
		time.AfterFunc(time.Minute, conn.Restore)
		lock, err := l.Lock(t.Context(), "job", holdfast.RetryRefused(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer must.Unlock(t, lock)
		if counts[holdfast.EventWait] != 1 || counts[holdfast.EventAcquire] != 2 {
			t.Errorf("events: %v, want one wait, and an acquire for each of two calls", counts)
		}
		if last.Waited < time.Minute || !last.Blocked || last.Attempts < 10 {
			t.Errorf("the acquire says %+v, want the whole wait and all attempts", last)
		}
	})
}
