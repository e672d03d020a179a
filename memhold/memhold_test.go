package memhold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const ttl = 30 * time.Second

func claim(owner string) driver.Claim {
	return driver.Claim{Name: "job", Owner: owner, TTL: ttl, Count: 1, Tokens: 1, Note: "note of " + owner}
}

func mustTry(t *testing.T, b *Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o, err := b.Try(t.Context(), c)
	if err != nil || !o.Granted {
		t.Fatalf("Try(%s): got %+v, %v, want a grant", c.Owner, o, err)
	}
	return o
}

func renew(t *testing.T, b *Backend, c driver.Claim) driver.Renewal {
	t.Helper()
	answers, err := b.Renew(t.Context(), []driver.Claim{c})
	if err != nil || len(answers) != 1 {
		t.Fatalf("Renew(%s): got %v, %v, want one answer", c.Owner, answers, err)
	}
	return answers[0]
}

// left returns how many things a Backend keeps.
func left(b *Backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries) + len(b.marks) + len(b.answers)
}

func TestLeaseEndsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		a, other := claim("a"), claim("b")
		mustTry(t, b, a)

		time.Sleep(ttl - 1)
		o, err := b.Try(t.Context(), other)
		if err != nil || o.Granted || o.RetryAfter != 1 || o.Holder != a.Note || o.HeldFor != ttl-1 {
			t.Fatalf("1 ns before the end: got %+v, %v, want a refusal with RetryAfter 1ns and holder %q for all but 1ns", o, err, a.Note)
		}
		time.Sleep(o.RetryAfter)
		mustTry(t, b, other)
	})
}

func TestDayOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		a := claim("a")
		mustTry(t, b, a)
		for range 24 * 60 * 6 {
			time.Sleep(10 * time.Second)
			if r := renew(t, b, a); r.Err != nil || r.ValidFor != ttl {
				t.Fatalf("renewal: got %+v, want %v", r, ttl)
			}
		}
	})
}

func TestTTLIsNeverShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		a := claim("a")
		mustTry(t, b, a)
		a.TTL = time.Second
		if o := mustTry(t, b, a); o.ValidFor != ttl {
			t.Errorf("repeated Try: got ValidFor %v, want %v", o.ValidFor, ttl)
		}
		if r := renew(t, b, a); r.ValidFor != ttl {
			t.Errorf("Renew: got ValidFor %v, want %v", r.ValidFor, ttl)
		}
	})
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		now := uint64(time.Now().UnixMicro())
		a := claim("a")
		a.Tokens = 10
		for i, want := range []uint64{now, now + 10, now + 20} {
			if got := mustTry(t, b, a).Token; got != want {
				t.Errorf("grant %d: got token %d, want %d", i, got, want)
			}
		}
		// One number for the whole store, and never behind the clock.
		other := claim("b")
		other.Name = "another job"
		if got, want := mustTry(t, b, other).Token, now+30; got != want {
			t.Errorf("another name: got token %d, want %d", got, want)
		}
		time.Sleep(time.Second)
		if got, want := mustTry(t, b, a).Token, now+1_000_000; got != want {
			t.Errorf("a second later: got token %d, want %d", got, want)
		}
	})
}

func TestReasons(t *testing.T) {
	tests := []struct {
		name   string
		lose   func(ctx context.Context, b *Backend)
		want   driver.Reason
		detail string
	}{
		{"expired unseen", func(context.Context, *Backend) {
			time.Sleep(ttl)
		}, driver.ReasonExpired, "nothing of the claim is left"},
		{"expired and taken", func(ctx context.Context, b *Backend) {
			time.Sleep(ttl)
			_, _ = b.Try(ctx, claim("b"))
		}, driver.ReasonNotOwner, "note of b"},
		{"broken", func(ctx context.Context, b *Backend) {
			_ = b.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, "it hung")
		}, driver.ReasonForced, `lock of "note of a" was broken: it hung`},
		{"broken and taken", func(ctx context.Context, b *Backend) {
			_ = b.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, "it hung")
			_, _ = b.Try(ctx, claim("b"))
			time.Sleep(ttl - 1)
		}, driver.ReasonForced, "it hung"},
		{"broken, granted again and expired", func(ctx context.Context, b *Backend) {
			_ = b.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, "it hung")
			brief := claim("a")
			brief.TTL = 1
			_, _ = b.Try(ctx, brief)
			time.Sleep(time.Nanosecond)
		}, driver.ReasonExpired, "nothing of the claim is left"},
		{"given up", func(ctx context.Context, b *Backend) {
			a := claim("a")
			a.Indeterminate = true
			_ = b.Release(ctx, a)
		}, driver.ReasonExpired, "nothing of the claim is left"},
		{"deleted", func(_ context.Context, b *Backend) {
			b.Drop("job")
		}, driver.ReasonDeleted, "deleted by hand"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New()
				a := claim("a")
				mustTry(t, b, a)
				tt.lose(t.Context(), b)
				for what, err := range map[string]error{
					"Renew":   renew(t, b, a).Err,
					"Release": b.Release(t.Context(), a),
				} {
					var gone *driver.GoneError
					if !errors.As(err, &gone) || gone.Reason != tt.want || !strings.Contains(gone.Detail, tt.detail) {
						t.Errorf("%s: got %#v, want reason %q and detail %q", what, err, tt.want, tt.detail)
					}
				}
			})
		})
	}
}

func TestDropOfFreeName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		if b.Drop("job") {
			t.Error("Drop of a free name: got true, want false")
		}
		mustTry(t, b, claim("a"))
		time.Sleep(ttl)
		if b.Drop("job") {
			t.Error("Drop of a lapsed grant: got true, want false")
		}
	})
}

func TestAbandonedClaimIsRefusedForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		a := claim("a")
		a.Indeterminate = true
		if err := b.Release(t.Context(), a); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Release of a claim that has not arrived: got %v, want ErrGone", err)
		}
		time.Sleep(ttl - 1)
		if o, err := b.Try(t.Context(), a); o.Granted || !errors.Is(err, driver.ErrGone) {
			t.Errorf("late Try: got %+v, %v, want ErrGone", o, err)
		}
		elsewhere := a
		elsewhere.Name = "another job"
		mustTry(t, b, elsewhere)
		time.Sleep(time.Nanosecond)
		mustTry(t, b, a)
	})
}

func TestWaitersWakeTogether(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(ctx context.Context, b *Backend)
	}{
		{"Release", func(ctx context.Context, b *Backend) { _ = b.Release(ctx, claim("a")) }},
		{"Break", func(ctx context.Context, b *Backend) { _ = b.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, "") }},
		{"Drop", func(_ context.Context, b *Backend) { b.Drop("job") }},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New()
				mustTry(t, b, claim("a"))
				woken := make(chan error, 5)
				for i := range cap(woken) {
					c := claim(fmt.Sprint(i))
					o, err := b.Try(t.Context(), c)
					if err != nil || o.Granted {
						t.Fatalf("Try of a held name: got %+v, %v, want a refusal", o, err)
					}
					go func() {
						w := b.Waiter(c)
						defer w.Close()
						_, err := w.Wait(t.Context(), o)
						woken <- err
					}()
				}
				synctest.Wait()
				if len(woken) > 0 {
					t.Fatalf("%d waiters returned while nothing changed", len(woken))
				}
				end.do(t.Context(), b)
				synctest.Wait()
				if len(woken) != cap(woken) {
					t.Fatalf("%d waiters returned, want %d", len(woken), cap(woken))
				}
				for range cap(woken) {
					if err := <-woken; err != nil {
						t.Errorf("Wait: got %v, want nil", err)
					}
				}
			})
		})
	}
}

func TestWaitWithoutOutcomeReturns(t *testing.T) {
	if _, err := New().Waiter(claim("a")).Wait(t.Context(), driver.Outcome{}); err != nil {
		t.Errorf("Wait: got %v, want nil", err)
	}
}

func TestEndedContextIsNotSent(t *testing.T) {
	b := New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, tryErr := b.Try(ctx, claim("a"))
	_, renewErr := b.Renew(ctx, []driver.Claim{claim("a")})
	_, getErr := b.Get(ctx, "job")
	for what, err := range map[string]error{
		"Try":     tryErr,
		"Renew":   renewErr,
		"Release": b.Release(ctx, claim("a")),
		"Get":     getErr,
		"Force":   b.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, ""),
	} {
		if !errors.Is(err, driver.ErrNotExecuted) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want ErrNotExecuted and context.Canceled", what, err)
		}
	}
	if n := left(b); n != 0 {
		t.Errorf("%d records and marks are left", n)
	}
}

func TestMemoryReturnsToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		b := New()
		for i := range n {
			c := claim(fmt.Sprint("a", i))
			c.Name = fmt.Sprint("job", i)
			mustTry(t, b, c)
			switch i % 4 {
			case 0:
				_ = b.Release(t.Context(), c)
			case 1:
				c.Indeterminate = true
				_ = b.Release(t.Context(), c)
			case 2:
				b.Drop(c.Name)
			case 3: // its process is gone
			}
		}
		if got := left(b); got != n*3/4 {
			t.Fatalf("got %d records and marks, want %d", got, n*3/4)
		}
		time.Sleep(ttl)
		// Others use the store, under names of their own.
		for range n {
			c := claim("b")
			mustTry(t, b, c)
			if err := b.Release(t.Context(), c); err != nil {
				t.Fatalf("Release: got %v, want nil", err)
			}
		}
		if got := left(b); got != 0 {
			t.Errorf("got %d records and marks after all leases have ended, want 0", got)
		}
	})
}
