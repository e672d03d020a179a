package redishold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// naps returns how long n calls of Wait sleep.
func naps(t *testing.T, w driver.Waiter, n int) []time.Duration {
	t.Helper()
	var slept []time.Duration
	for range n {
		start := time.Now()
		if _, err := w.Wait(t.Context(), driver.Outcome{}); err != nil {
			t.Fatalf("Wait: got %v, want nil", err)
		}
		slept = append(slept, time.Since(start))
	}
	return slept
}

// wantNaps checks that sleeps double from 1 ms up to most, each with jitter.
func wantNaps(t *testing.T, slept []time.Duration, most time.Duration) {
	t.Helper()
	want := pollFirst
	for i, d := range slept {
		if d > want || d < want*3/4-1 {
			t.Errorf("sleep %d: got %v, want 75 to 100 percent of %v", i, d, want)
		}
		want = min(2*want, most)
	}
}

func TestPollDoublesItsSleepAndDoesNotListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, &Options{Poll: 20 * time.Millisecond})
		if b.Info().Caps.Wakes {
			t.Error("a Backend that polls claims that the store wakes it")
		}
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		wantNaps(t, naps(t, w, 9), 20*time.Millisecond)
		if subs := conn.subscriptions(); len(subs) != 0 {
			t.Errorf("got %d subscriptions, want none", len(subs))
		}
		wantNaps(t, naps(t, b.Waiter(testClaim("orders")), 2), 20*time.Millisecond) // each begins again
	})
}

func TestPollEndsWithItsContextAndTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(&fakeConn{}, &Options{Poll: time.Hour}).Waiter(testClaim("orders"))
		naps(t, w, 20) // the next sleep takes minutes
		start := time.Now()
		if _, err := w.Wait(t.Context(), driver.Outcome{RetryAfter: 3 * time.Second}); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("a lease that ends: got %v after %v, want nil after 3s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := w.Wait(ctx, driver.Outcome{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("a context that ends: got %v after %v, want its error after 1s", err, time.Since(start))
		}
	})
}

func TestUserWhoMayNotListenPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := &ReplyError{Text: "NOPERM this user has no permissions to run the 'subscribe' command"}
		fail := error(denied)
		conn := &fakeConn{answer: replying("acquire", busyReply()), subscribe: func(context.Context, Channel) error { return fail }}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		slept := naps(t, w, 12)
		wantNaps(t, slept, pollMost)
		if n := len(conn.subscriptions()); n != 1 {
			t.Errorf("got %d attempts to subscribe in the first second, want 1", n)
		}
		fail = nil // as if an operator granted the permission
		time.Sleep(subscribeAgain)
		wantReturned(t, begin(t.Context(), w, busyTry(t, b)), "once subscribed")
		waiting := begin(t.Context(), w, busyTry(t, b))
		time.Sleep(time.Minute)
		wantWaiting(t, waiting, "that listens")
		subs := conn.subscriptions()
		subs[len(subs)-1].notify(Notice{Payload: "0"})
		wantReturned(t, waiting, "after a message")
	})
}
