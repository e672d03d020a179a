package memhold

import (
	"context"
	"errors"
	"slices"
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
		"Notify": func(ctx context.Context) error { return c.Notify(ctx, "client", func(uint64) {}) },
	} {
		limited, cancel := context.WithTimeout(ctx, callLimit)
		errs[what] = call(limited)
		cancel()
	}
	return errs
}

// answered reports whether err is an answer of the store. Notify only ends with its context.
func answered(what string, err error) bool {
	return err == nil || errors.Is(err, driver.ErrGone) || what == "Notify" && errors.Is(err, context.DeadlineExceeded)
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
					case fault.want == nil && !answered(what, err):
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
						if !answered(what, err) {
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

// Cut stops a request that is under way, and an answer.
func TestCutOfCallUnderWay(t *testing.T) {
	const delay, restored = 10 * time.Second, 20 * time.Second
	for what, c := range map[string]struct {
		cut, took time.Duration
		executed  bool // before Restore
	}{
		"request": {delay / 10, restored + delay/2, false},
		"answer":  {delay * 6 / 10, restored, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := New()
				conn := store.Connect()
				conn.Delay(delay)
				start, done := time.Now(), make(chan time.Duration, 1)
				go func() {
					if o, err := conn.Try(t.Context(), claim("a")); err != nil || !o.Granted {
						t.Errorf("got %+v, %v, want a grant", o, err)
					}
					done <- time.Since(start)
				}()
				time.Sleep(c.cut)
				conn.Cut()
				time.Sleep(restored - c.cut)
				if got := executed(t, store); got != c.executed {
					t.Errorf("executed before Restore: got %v, want %v", got, c.executed)
				}
				conn.Restore()
				if took := <-done; took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// listening is a Conn with a Wait and a Notify that have begun, for a lock that another owner
// holds.
type listening struct {
	*Conn
	held  driver.Claim
	hints []uint64
	woken chan time.Duration // gets how long Wait took
	end   context.CancelFunc
}

func listen(t *testing.T) *listening {
	t.Helper()
	l := &listening{Conn: New().Connect(), held: claim("a"), woken: make(chan time.Duration, 1)}
	l.held.Client, l.held.Seq = "client", 7
	mustTry(t, l.store, l.held)
	waiting := claim("b")
	refused, err := l.Try(t.Context(), waiting)
	if err != nil || refused.Granted {
		t.Fatalf("got %+v, %v, want a refusal", refused, err)
	}
	ctx, end := context.WithCancel(t.Context())
	l.end = end
	go func() { _ = l.Notify(ctx, "client", func(seq uint64) { l.hints = append(l.hints, seq) }) }()
	go func() {
		start := time.Now()
		if _, err := l.Waiter(waiting).Wait(ctx, refused); err != nil {
			t.Error(err)
		}
		l.woken <- time.Since(start)
	}()
	synctest.Wait()
	return l
}

// force ends the hold of the other owner.
func (l *listening) force(t *testing.T) {
	t.Helper()
	if err := l.store.ForceUnlock(t.Context(), "job", admin.Holder{Owner: "a"}, "it hung"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// A fault of later calls spares a Wait and a Notify that have begun, and so does one that has
// ended.
func TestFaultsSpareCallsUnderWay(t *testing.T) {
	for name, fault := range map[string]func(*Conn){
		"slow":             func(c *Conn) { c.Delay(time.Hour) },
		"fail":             func(c *Conn) { c.Fail(driver.ErrRefused) },
		"cut and restored": func(c *Conn) { c.Cut(); synctest.Wait(); c.Restore() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := listen(t)
				defer l.end()
				fault(l.Conn)
				time.Sleep(time.Second)
				synctest.Wait()
				select {
				case after := <-l.woken:
					t.Fatalf("Wait returned after %v, without a change", after)
				default:
				}
				l.force(t)
				if after := <-l.woken; after != time.Second {
					t.Errorf("Wait returned after %v, want it at the change, after a second", after)
				}
				if len(l.hints) != 1 || l.hints[0] != 7 {
					t.Errorf("got hints %v, want one", l.hints)
				}
			})
		})
	}
}

// While no answers arrive, neither does a notification: of a release it comes later, of a
// forced unlock it never comes.
func TestNotificationsDoNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		defer l.end()
		l.Cut()
		l.force(t)
		time.Sleep(time.Second)
		l.Restore()
		if after := <-l.woken; after != time.Second {
			t.Errorf("Wait returned after %v, want it at Restore, after a second", after)
		}
		mustTry(t, l.store, l.held)
		l.force(t)
		if len(l.hints) != 1 || l.hints[0] != 7 {
			t.Errorf("got hints %v, want only that after Restore", l.hints)
		}
	})
}

// A Notify reports what ends after its request has arrived.
func TestSlowNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New()
		c := store.Connect()
		c.Delay(4 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var hints []uint64
		go func() { _ = c.Notify(ctx, "client", func(seq uint64) { hints = append(hints, seq) }) }()
		for seq := range uint64(4) { // one at 0.5 s, and each second
			time.Sleep(time.Second / 2)
			held := claim("a")
			held.Client, held.Seq = "client", seq
			mustTry(t, store, held)
			store.Drop("job")
			time.Sleep(time.Second / 2)
			synctest.Wait() // for the write of hints
		}
		if !slices.Equal(hints, []uint64{2, 3}) {
			t.Errorf("got hints %v, want those after two seconds", hints)
		}
	})
}
