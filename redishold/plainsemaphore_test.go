package redishold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// permitsConn returns a fakeConn with the replies of a test for a semaphore, and a function that
// returns its calls.
func permitsConn(answer func(n int, c Call) Result) (*fakeConn, func() []Call) {
	var mu sync.Mutex
	var calls []Call
	conn := &fakeConn{}
	conn.answer = func(c Call) Result {
		if len(c.Script.Name()) < 8 || c.Script.Name()[:8] != "permits_" {
			return Result{}
		}
		mu.Lock()
		calls = append(calls, c)
		n := len(calls)
		mu.Unlock()
		return answer(n, c)
	}
	return conn, func() []Call {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

func done(code, number int64) Result { return Result{Value: []any{code, number}} }

var errReset = errors.New("connection reset")

func TestPlainSemaphoreRepeatsALostCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, calls := permitsConn(func(n int, _ Call) Result {
			switch n {
			case 1:
				return Result{Err: driver.ErrNotExecuted}
			case 2, 3:
				return Result{Err: errReset}
			}
			return done(1, 0)
		})
		if err := New(conn, nil).PlainSemaphore("jobs").Acquire(t.Context(), 3); err != nil {
			t.Fatalf("got error %v", err)
		}
		var flags []string
		for _, c := range calls() {
			if c.Script.Name() != "permits_take" || !slices.Equal(c.Keys, calls()[0].Keys) || len(c.Args) != 3 || c.Args[0] != "3" {
				t.Errorf("got %s %q %q, want the same call again", c.Script.Name(), c.Keys, c.Args)
			}
			flags = append(flags, c.Args[2])
		}
		if want := []string{"0", "0", "1", "1"}; !slices.Equal(flags, want) {
			t.Errorf("may an earlier attempt arrive? got %q, want %q", flags, want)
		}
	})
}

func TestPlainSemaphoreTriesUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, calls := permitsConn(func(int, Call) Result { return Result{Err: driver.ErrNotExecuted} })
		s := New(conn, nil).PlainSemaphore("jobs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := s.Acquire(ctx, 1)
		wantErrors(t, "Acquire", err, driver.ErrNotExecuted)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error too", err)
		}
		if n := len(calls()); n < 200 || n > 400 {
			t.Errorf("got %d attempts in a minute, want about 4 a second", n)
		}
		before := len(calls())
		_, err = s.TryAcquire(t.Context(), 1)
		wantErrors(t, "TryAcquire", err, driver.ErrNotExecuted)
		if n := len(calls()) - before; n != 3 {
			t.Errorf("TryAcquire: got %d attempts, want 3", n)
		}
		if err := s.Settle(t.Context()); err != nil {
			t.Errorf("Settle: got %v with nothing to give back", err)
		}
	})
}

func TestPlainSemaphoreGivesUpOnWhatIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			text string
			want []error
		}{
			{"OOM no", []error{driver.ErrRefused, driver.ErrNotExecuted}},
			{"WRONGTYPE no", []error{driver.ErrMismatch}},
			{"NOAUTH no", []error{driver.ErrRefused, driver.ErrNotExecuted}},
		} {
			conn, calls := permitsConn(func(int, Call) Result { return Result{Err: &ReplyError{Text: c.text}} })
			s := New(conn, nil).PlainSemaphore("jobs")
			wantErrors(t, c.text, s.Acquire(t.Context(), 1), c.want...)
			wantErrors(t, c.text, s.Release(t.Context(), 1), c.want...)
			if n := len(calls()); n != 2 {
				t.Errorf("%s: got %d attempts for two calls", c.text, n)
			}
		}
		conn, _ := permitsConn(func(n int, _ Call) Result {
			if n == 1 {
				return Result{Err: errReset}
			}
			return Result{Err: &ReplyError{Text: "OOM no"}}
		})
		// Only the last attempt was refused: of the first nothing is known.
		wantErrors(t, "Release", New(conn, nil).PlainSemaphore("jobs").Release(t.Context(), 1), driver.ErrRefused)
	})
}

func TestPlainSemaphoreGivesBackWhatACancelledCallTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		conn, calls := permitsConn(func(n int, c Call) Result {
			switch {
			case n == 1:
				cancel()
				return Result{Err: context.Canceled}
			case n < 4:
				return Result{Err: errReset}
			}
			return done(1, 0)
		})
		s := New(conn, nil).PlainSemaphore("jobs")
		err := s.Acquire(ctx, 2)
		wantErrors(t, "Acquire", err)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the context's error", err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := s.Settle(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Settle: got %v while permits are being released", err)
		}
		if err := s.Settle(t.Context()); err != nil {
			t.Errorf("Settle: got %v", err)
		}
		if n := len(calls()); n != 4 {
			t.Fatalf("got %d calls, want one take and 3 attempts to undo it", n)
		}
		for _, c := range calls()[1:] {
			if c.Script.Name() != "permits_undo" || !slices.Equal(c.Keys, calls()[0].Keys) || c.Args[0] != "2" {
				t.Errorf("got %s %q %q, want the take undone", c.Script.Name(), c.Keys, c.Args)
			}
		}
	})
}

// A call is not repeated any more when its idempotency key may have expired.
func TestPlainSemaphoreStopsBeforeItsCallExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began time.Time
		var last time.Time
		conn, _ := permitsConn(func(int, Call) Result {
			last = time.Now()
			return Result{Err: errReset}
		})
		s := New(conn, nil).PlainSemaphore("jobs")
		for what, call := range map[string]func() error{
			"Release": func() error { return s.Release(t.Context(), 1) },
			"Acquire": func() error { return s.Acquire(t.Context(), 1) },
		} {
			began = time.Now()
			err := call()
			wantErrors(t, what, err)
			if took := time.Since(began); took < (time.Minute/2) || took > (time.Minute/2)+retry.DelayMost || !strings.Contains(fmt.Sprint(err), "not known whether it was done") {
				t.Errorf("%s: got %v after %v, want an unknown outcome after %v", what, err, took, (time.Minute / 2))
			}
			if err := s.Settle(t.Context()); err != nil {
				t.Errorf("%s: Settle: got %v", what, err)
			}
			if took := last.Sub(began); took > time.Minute {
				t.Errorf("%s: the last attempt came after %v, when the mark was gone", what, took)
			}
		}
	})
}

func TestPlainSemaphoreWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Bool
		conn, calls := permitsConn(func(int, Call) Result {
			if free.Load() {
				return done(1, 0)
			}
			return done(0, 0)
		})
		s := New(conn, nil).PlainSemaphore("jobs")
		result := make(chan error, 1)
		go func() { result <- s.Acquire(t.Context(), 1) }()
		synctest.Wait()
		if subs := conn.subscriptions(); len(subs) != 1 || subs[0].channel.Name != "redisson_sc:{jobs}" {
			t.Fatalf("got subscriptions %v, want one to the semaphore's channel", subs)
		}
		if n := len(calls()); n != 2 {
			t.Fatalf("got %d tries, want one before and one after listening began", n)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if n := len(calls()); n < 12 || n > 17 {
			t.Errorf("got %d tries in 10 s, want about one a second", n)
		}
		if a, b := calls()[2].Keys[1], calls()[3].Keys[1]; a == b {
			t.Error("two looks share a mark")
		}
		free.Store(true)
		before := time.Now()
		conn.subscriptions()[0].notify(Notice{Payload: "1"})
		if err := <-result; err != nil || time.Since(before) != 0 {
			t.Errorf("got error %v after %v, want it woken by the message", err, time.Since(before))
		}
		if n := conn.subscriptions()[0].closes(); n != 1 {
			t.Errorf("closed its subscription %d times", n)
		}
		if n := conn.count("permits_undo"); n != 0 {
			t.Errorf("gave back %d times what was never in doubt", n)
		}
	})
}

func TestPlainSemaphoreWaitsWithoutMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, calls := permitsConn(func(int, Call) Result { return done(0, 0) })
		conn.subscribe = func(context.Context, Channel) error {
			return errReset
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := New(conn, nil).PlainSemaphore("jobs").Acquire(ctx, 1)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if n := len(calls()); n < 30 || n > 60 {
			t.Errorf("got %d tries in 10 s, want about 4 a second", n)
		}
	})
}

func TestPlainSemaphoreNumbers(t *testing.T) {
	conn, calls := permitsConn(func(_ int, c Call) Result {
		if c.Script.Name() == "permits_count" {
			return done(1, -3)
		}
		return done(1, 4)
	})
	s := New(conn, nil).PlainSemaphore("jobs")
	ctx := t.Context()
	if err := s.Release(ctx, 0); err != nil {
		t.Errorf("Release(0): %v", err)
	}
	if taken, err := s.TryAcquire(ctx, 0); err != nil || !taken {
		t.Errorf("TryAcquire(0): got %v and error %v", taken, err)
	}
	wantErrors(t, "Release(-1)", s.Release(ctx, -1), driver.ErrRefused, driver.ErrNotExecuted)
	wantErrors(t, "Acquire(-1)", s.Acquire(ctx, -1), driver.ErrRefused, driver.ErrNotExecuted)
	_, err := s.TrySet(ctx, -1)
	wantErrors(t, "TrySet(-1)", err, driver.ErrRefused, driver.ErrNotExecuted)
	if len(calls()) != 0 {
		t.Fatalf("sent %v, want nothing", calls())
	}
	if n, err := s.Available(ctx); err != nil || n != -3 {
		t.Errorf("Available: got %d and error %v, want -3", n, err)
	}
	if n, err := s.Drain(ctx); err != nil || n != 4 {
		t.Errorf("Drain: got %d and error %v, want 4", n, err)
	}
	if err := s.Add(ctx, -2); err != nil {
		t.Errorf("Add(-2): %v", err)
	}
}

func TestRepliesOfCounters(t *testing.T) {
	for _, value := range []any{nil, int64(1), []any{}, []any{int64(1)}, []any{int64(2), int64(0)}, []any{int64(-2), int64(0)}, []any{int64(1), "x"}, []any{int64(1), int64(0), int64(0)}} {
		conn := &fakeConn{answer: replying("latch_down", value)}
		wantErrors(t, "CountDown", New(conn, nil).CountDown(t.Context(), "start", "1"))
		conn.answer = replying("latch_set", value)
		if set, err := New(conn, nil).SetCount(t.Context(), "start", "1", 2); err == nil || set {
			t.Errorf("%v: SetCount got %v without an error", value, set)
		}
	}
}

func TestLatchWaiterRemembersWhatItTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, nil)
		w := b.LatchWaiter("{t}start")
		defer w.Close()
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "first")
		if got, want := conn.subscriptions()[0].channel.Name, "redisson_countdownlatch__channel__{{t}start}"; got != want {
			t.Fatalf("channel: got %q, want %q", got, want)
		}
		waiting := begin(t.Context(), w, driver.Outcome{})
		wantWaiting(t, waiting, "with nothing new")
		conn.subscriptions()[0].notify(Notice{Payload: "0"})
		wantReturned(t, waiting, "after a message")
		conn.subscriptions()[0].notify(Notice{Payload: "0"}) // between a Wait and the next
		wantReturned(t, begin(t.Context(), w, driver.Outcome{}), "after a message since the Wait before")

		other := b.LatchWaiter("{t}start") // joins a subscription that is there
		defer other.Close()
		wantReturned(t, begin(t.Context(), other, driver.Outcome{}), "first of a second waiter")
	})
}
