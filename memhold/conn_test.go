package memhold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// callLimit is the time that each call of a test gets.
const callLimit = time.Second

// allCalls makes every call of a Conn once, each with a limit and under a name of its own. It
// returns their errors.
func allCalls(ctx context.Context, c *Conn) map[string]error {
	errs := map[string]error{}
	for what, call := range map[string]func(context.Context) error{
		"Try":        func(ctx context.Context) error { _, err := c.Try(ctx, claim("a")); return err },
		"TryAll":     func(ctx context.Context) error { return c.TryAll(ctx, []driver.Claim{claim("a")})[0].Err },
		"Renew":      func(ctx context.Context) error { _, err := c.Renew(ctx, []driver.Claim{claim("a")}); return err },
		"Release":    func(ctx context.Context) error { return c.Release(ctx, claim("none")) },
		"ReleaseAll": func(ctx context.Context) error { return c.ReleaseAll(ctx, []driver.Claim{claim("none")})[0] },
		"Resize":     func(ctx context.Context) error { return c.Resize(ctx, "permits", 1) },
		"Permits":    func(ctx context.Context) error { _, _, err := c.Permits(ctx, "permits"); return err },
		"SetCount":   func(ctx context.Context) error { _, err := c.SetCount(ctx, "latch", "set", 1); return err },
		"CountDown":  func(ctx context.Context) error { return c.CountDown(ctx, "latch", "down") },
		"Count":      func(ctx context.Context) error { _, err := c.Count(ctx, "latch"); return err },
		"Wait": func(ctx context.Context) error {
			_, err := c.Waiter(claim("a")).Wait(ctx, driver.Outcome{}) // it returns at once, if it can
			return err
		},
		"LatchWait": func(ctx context.Context) error {
			_, err := c.LatchWaiter("latch").Wait(ctx, driver.Outcome{})
			return err
		},
	} {
		limited, cancel := context.WithTimeout(ctx, callLimit)
		errs[what] = call(limited)
		cancel()
	}
	return errs
}

// executed reports whether the claim of allCalls is in the store.
func executed(t *testing.T, b *Backend) bool {
	t.Helper()
	records, err := b.Get(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	return records[0].Kind != ""
}

func TestFaults(t *testing.T) {
	wrong := errors.New("wrong password")
	for name, fault := range map[string]struct {
		begin    func(*Conn)
		want     error // of each call
		executed bool
	}{
		"cut":               {(*Conn).Cut, context.DeadlineExceeded, false},
		"lost answers":      {(*Conn).LoseAnswers, context.DeadlineExceeded, true},
		"fail":              {func(c *Conn) { c.Fail(wrong) }, wrong, false},
		"request too slow":  {func(c *Conn) { c.Delay(3 * callLimit) }, context.DeadlineExceeded, false},
		"answer too slow":   {func(c *Conn) { c.Delay(3 * callLimit / 2) }, context.DeadlineExceeded, true},
		"another in place":  {func(c *Conn) { c.Cut(); c.Fail(wrong) }, wrong, false},
		"restored and slow": {func(c *Conn) { c.Cut(); c.Restore(); c.Delay(callLimit / 2) }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := New()
				c, beside := store.Connect(), store.Connect()
				fault.begin(c)
				for what, err := range allCalls(t.Context(), c) {
					switch {
					case fault.want != nil && !errors.Is(err, fault.want):
						t.Errorf("%s: got %v, want %v", what, err, fault.want)
					case fault.want == nil && err != nil && !errors.Is(err, driver.ErrGone):
						t.Errorf("%s: got %v, want an answer of the store", what, err)
					case errors.Is(err, driver.ErrNotExecuted):
						t.Errorf("%s: got %v, want no certainty", what, err)
					}
				}
				if got := executed(t, store); got != fault.executed {
					t.Errorf("executed: got %v, want %v", got, fault.executed)
				}
				c.Restore()
				for from, conn := range map[string]*Conn{"this connection": c, "another": beside} {
					for what, err := range allCalls(t.Context(), conn) {
						if err != nil && !errors.Is(err, driver.ErrGone) {
							t.Errorf("%s after Restore, over %s: %v", what, from, err)
						}
					}
				}
			})
		})
	}
}

// A context that had ended before a call: the call was not sent, whatever the fault is.
func TestEndedContextOverConn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := New().Connect()
	for name, begin := range map[string]func(){"none": c.Restore, "cut": c.Cut, "lost answers": c.LoseAnswers, "slow": func() { c.Delay(time.Hour) }} {
		begin()
		for what, err := range allCalls(ctx, c) {
			if !errors.Is(err, driver.ErrNotExecuted) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %s: got %v, want ErrNotExecuted and context.Canceled", name, what, err)
			}
		}
	}
}

// A call takes the delay, half of it before the store executes it.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 3 * time.Second
		store := New()
		c := store.Connect()
		c.Delay(delay)
		start := time.Now()
		if o, err := c.Try(t.Context(), claim("a")); err != nil || !o.Granted {
			t.Fatalf("got %+v, %v, want a grant", o, err)
		}
		if took := time.Since(start); took != delay {
			t.Errorf("Try took %v, want %v", took, delay)
		}
		records, err := store.Get(t.Context(), "job")
		if err != nil || records[0].Remaining != ttl-delay/2 {
			t.Errorf("got %+v, %v, want a lease that began %v ago", records, err, delay/2)
		}
	})
}

// A call that waits is executed, or gets its answer, when the connection is restored.
func TestRestoreEndsTheWait(t *testing.T) {
	for name, begin := range map[string]func(*Conn){"cut": (*Conn).Cut, "lost answers": (*Conn).LoseAnswers} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New().Connect()
				begin(c)
				go func() {
					time.Sleep(ttl / 2)
					c.Restore()
				}()
				start := time.Now()
				if o, err := c.Try(t.Context(), claim("a")); err != nil || !o.Granted {
					t.Errorf("got %+v, %v, want a grant", o, err)
				}
				if took := time.Since(start); took != ttl/2 {
					t.Errorf("took %v, want %v", took, ttl/2)
				}
			})
		})
	}
}

// While no answers arrive, neither does a notification: of a release it comes later, of a
// forced unlock it never comes.
func TestNotificationsDoNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New()
		c := store.Connect()
		held := claim("a")
		held.Client, held.Seq = "client", 7
		mustTry(t, store, held)
		waiting := claim("b")
		refused, err := c.Try(t.Context(), waiting)
		if err != nil || refused.Granted {
			t.Fatalf("got %+v, %v, want a refusal", refused, err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		var hints []uint64
		go func() { _ = c.Notify(ctx, "client", func(seq uint64) { hints = append(hints, seq) }) }()
		start, woken := time.Now(), make(chan time.Duration)
		go func() {
			_, err := c.Waiter(waiting).Wait(ctx, refused)
			if err != nil {
				t.Error(err)
			}
			woken <- time.Since(start)
		}()
		synctest.Wait()

		c.Cut()
		if err := store.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, "it hung"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.Restore()
		if after := <-woken; after != time.Second {
			t.Errorf("Wait returned after %v, want it at Restore, after a second", after)
		}

		mustTry(t, store, held)
		if err := store.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, "it hung again"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(hints) != 1 || hints[0] != 7 {
			t.Errorf("got hints %v, want only that after Restore", hints)
		}
	})
}
