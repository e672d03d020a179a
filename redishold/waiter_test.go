package redishold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// busyTry makes a Try that must find the lock busy.
func busyTry(t *testing.T, b *Backend) driver.Outcome {
	t.Helper()
	o, err := b.Try(t.Context(), testClaim("orders"))
	if err != nil || o.Granted {
		t.Fatalf("Try: got %+v and error %v, want busy", o, err)
	}
	return o
}

// begin starts a Wait and returns where its result will be.
func begin(ctx context.Context, w driver.Waiter, last driver.Outcome) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := w.Wait(ctx, last)
		result <- err
	}()
	return result
}

// returned reports whether a Wait has returned, once all is quiet, and its error.
func returned(result <-chan error) (bool, error) {
	synctest.Wait()
	select {
	case err := <-result:
		return true, err
	default:
		return false, nil
	}
}

func wantReturned(t *testing.T, result <-chan error, when string) {
	t.Helper()
	if done, err := returned(result); !done || err != nil {
		t.Fatalf("Wait %s: returned %v with error %v, want nil", when, done, err)
	}
}

func wantWaiting(t *testing.T, result <-chan error, when string) {
	t.Helper()
	if done, err := returned(result); done {
		t.Fatalf("Wait %s: returned with error %v, want it to wait", when, err)
	}
}

func TestWaitMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply())}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		defer w.Close()

		last := busyTry(t, b)
		wantReturned(t, begin(t.Context(), w, last), "before any subscription")
		wantReturned(t, begin(t.Context(), w, last), "with an outcome older than the subscription")

		last = busyTry(t, b)
		waiting := begin(t.Context(), w, last)
		wantWaiting(t, waiting, "with a fresh outcome")
		conn.subscriptions()[0].notify(Notice{Payload: "0"})
		wantReturned(t, waiting, "after a message")

		last = busyTry(t, b)
		conn.subscriptions()[0].notify(Notice{Payload: "0"}) // between Try and Wait
		wantReturned(t, begin(t.Context(), w, last), "after a message since the Try")

		last = busyTry(t, b)
		waiting = begin(t.Context(), w, last)
		wantWaiting(t, waiting, "with a fresh outcome")
		conn.subscriptions()[0].notify(Notice{Subscribed: true})
		wantReturned(t, waiting, "after a restored connection")
	})
}

// The first confirmation of a subscription wakes no waiter, because Subscribe has returned.
func TestLateConfirmationWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply()), late: true}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "first")
		waiting := begin(t.Context(), w, busyTry(t, b))
		wantWaiting(t, waiting, "with a fresh outcome")
		conn.subscriptions()[0].notify(Notice{Subscribed: true})
		wantWaiting(t, waiting, "after the first confirmation")
		conn.subscriptions()[0].notify(Notice{Subscribed: true})
		wantReturned(t, waiting, "after the second")
	})
}

func TestWaitIsSharedAndEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply())}
		b := New(conn, nil)
		first, second := b.Waiter(testClaim("orders")), b.Waiter(testClaim("orders"))
		wantReturned(t, begin(t.Context(), first, driver.Outcome{}), "first")
		last := busyTry(t, b)
		one, two := begin(t.Context(), first, last), begin(t.Context(), second, last)
		wantWaiting(t, one, "one")
		wantWaiting(t, two, "two")
		subs := conn.subscriptions()
		if len(subs) != 1 {
			t.Fatalf("got %d subscriptions, want 1", len(subs))
		}
		subs[0].notify(Notice{Payload: "0"})
		wantReturned(t, one, "one")
		wantReturned(t, two, "two")

		first.Close()
		first.Close()
		if subs[0].closes() != 0 {
			t.Fatal("closed while a waiter was left")
		}
		second.Close()
		if subs[0].closes() != 1 {
			t.Fatalf("closed %d times, want once", subs[0].closes())
		}

		// A later topic of the same name never takes up an old version.
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, last), "with an outcome of an earlier topic")
		wantReturned(t, begin(t.Context(), w, last), "with an outcome of an earlier topic, subscribed")
	})
}

func TestWaitReturnsItsContextsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply())}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Wait(ctx, busyTry(t, b)); err != context.DeadlineExceeded {
			t.Fatalf("got %v, want the context's error", err)
		}
	})
}

// A Wait that gives up does not take the others' subscription with it.
func TestSlowSubscriptionOutlivesAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: replying("acquire", busyReply()), subscribe: func(ctx context.Context, _ Channel) error {
			select {
			case <-time.After(3 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := w.Wait(ctx, busyTry(t, b)); err != context.DeadlineExceeded {
				t.Fatalf("got %v, want the context's error", err)
			}
			cancel()
		}
		if _, err := w.Wait(t.Context(), busyTry(t, b)); err != nil {
			t.Fatalf("got %v, want nil once subscribed", err)
		}
		if n := len(conn.subscriptions()); n != 1 {
			t.Fatalf("got %d attempts, want 1", n)
		}
	})
}

func TestCloseEndsAnAttemptWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		conn := &fakeConn{subscribe: func(ctx context.Context, _ Channel) error {
			<-ctx.Done()
			<-release // an answer that comes all the same
			return nil
		}}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Wait(ctx, driver.Outcome{}); err != context.DeadlineExceeded {
			t.Fatalf("got %v, want the context's error", err)
		}
		w.Close() // the bubble deadlocks if this waits
		close(release)
		synctest.Wait()
		if got := conn.subscriptions()[0].closes(); got != 1 {
			t.Fatalf("the late subscription was closed %d times, want once", got)
		}
	})
}

func TestFailedSubscriptionIsTriedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("connection reset")
		fail := reset
		conn := &fakeConn{answer: replying("acquire", busyReply()), subscribe: func(context.Context, Channel) error { return fail }}
		b := New(conn, nil)
		one, two := b.Waiter(testClaim("orders")), b.Waiter(testClaim("orders"))
		defer one.Close()
		defer two.Close()
		for range 5 {
			for _, w := range []driver.Waiter{one, two} {
				if _, err := w.Wait(t.Context(), busyTry(t, b)); !errors.Is(err, reset) {
					t.Fatalf("got %v, want the failure", err)
				}
			}
			time.Sleep(subscribeAgain / 10)
		}
		if n := len(conn.subscriptions()); n != 1 {
			t.Fatalf("got %d attempts within half a second, want 1", n)
		}
		fail = nil
		time.Sleep(subscribeAgain)
		if _, err := one.Wait(t.Context(), busyTry(t, b)); err != nil {
			t.Fatalf("got %v, want nil once subscribed", err)
		}
	})
}

func TestClusterListensOnBothChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{
			answer: replying("acquire", busyReply()),
			server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true, ShardedPS: true}, nil },
		}
		b := New(conn, nil)
		w := b.Waiter(testClaim("orders"))
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "first")
		subs := conn.subscriptions()
		if len(subs) != 2 || subs[0].channel.Sharded == subs[1].channel.Sharded || subs[0].channel.Name != subs[1].channel.Name {
			t.Fatalf("got %d subscriptions, want a classic and a sharded one of the same name", len(subs))
		}
		for _, s := range subs {
			last := busyTry(t, b)
			waiting := begin(t.Context(), w, last)
			wantWaiting(t, waiting, "with a fresh outcome")
			s.notify(Notice{Payload: "0"})
			wantReturned(t, waiting, "after a message")
		}
		w.Close()
		if subs[0].closes() != 1 || subs[1].closes() != 1 {
			t.Fatal("not all subscriptions were closed")
		}
	})
}

// Without a client that can listen on sharded channels, or the right to, the
// classic one serves; any other failure of one ends both.
func TestClusterWithOneChannelMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		conn := &fakeConn{
			server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true, ShardedPS: true}, nil },
			subscribe: func(_ context.Context, ch Channel) error {
				if ch.Sharded {
					return fail
				}
				return nil
			},
		}
		b := New(conn, nil)
		for _, fail = range []error{errors.ErrUnsupported, &ReplyError{Text: "NOPERM this user has no permissions to run the 'ssubscribe' command"}} {
			w := b.Waiter(testClaim("orders"))
			wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "with the classic channel alone")
			w.Close()
			time.Sleep(lingerFor) // a client that comes back sooner keeps its subscription
		}

		fail = errors.New("reset")
		w := b.Waiter(testClaim("orders"))
		defer w.Close()
		if _, err := w.Wait(t.Context(), driver.Outcome{}); !errors.Is(err, fail) {
			t.Fatalf("got %v, want %v", err, fail)
		}
		if got := conn.subscriptions()[4].closes(); got != 1 {
			t.Fatalf("the classic subscription was closed %d times, want once", got)
		}
	})
}
