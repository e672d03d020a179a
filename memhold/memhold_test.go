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

// left returns how many resources, tombstones and answers a Backend keeps.
func left(b *Backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.resources) + len(b.tombstones) + len(b.answers)
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
		for i, want := range []uint64{now - 9, now + 1, now + 11} {
			if got := mustTry(t, b, a).Token; got != want {
				t.Errorf("grant %d: got token %d, want %d", i, got, want)
			}
		}
		// One counter for the whole store, which is never behind the clock. A block ends at the
		// clock if it can.
		other := claim("b")
		other.Name = "another job"
		if got, want := mustTry(t, b, other).Token, now+21; got != want {
			t.Errorf("another name: got token %d, want %d", got, want)
		}
		time.Sleep(time.Second)
		if got, want := mustTry(t, b, a).Token, now+1_000_000-9; got != want {
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

func TestWaitWithoutOutcomeReturns(t *testing.T) {
	if _, err := New().Waiter(claim("a")).Wait(t.Context(), driver.Outcome{}); err != nil {
		t.Errorf("Wait: got %v, want nil", err)
	}
}

func TestEndedContextTouchesNothing(t *testing.T) {
	b := New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, tryErr := b.Try(ctx, claim("a"))
	_, renewErr := b.Renew(ctx, []driver.Claim{claim("a")})
	_, getErr := b.Get(ctx, "job")
	_, _, permitsErr := b.Permits(ctx, "job")
	_, setErr := b.SetCount(ctx, "job", "call", 1)
	_, countErr := b.Count(ctx, "job")
	for what, err := range map[string]error{
		"Try":       tryErr,
		"TryAll":    b.TryAll(ctx, []driver.Claim{claim("a")})[0].Err,
		"Renew":     renewErr,
		"Release":   b.Release(ctx, claim("a")),
		"Get":       getErr,
		"Force":     b.ForceUnlock(ctx, "job", admin.Holder{Owner: "a"}, ""),
		"Resize":    b.Resize(ctx, "job", 1),
		"Permits":   permitsErr,
		"SetCount":  setErr,
		"CountDown": b.CountDown(ctx, "job", "call"),
		"Count":     countErr,
	} {
		if !errors.Is(err, driver.ErrNotExecuted) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want ErrNotExecuted and context.Canceled", what, err)
		}
	}
	if n := left(b); n != 0 {
		t.Errorf("%d records and marks are left", n)
	}
}

// Whatever clients did, nothing is left when all leases have ended and others use the store.
func TestMemoryReturnsToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 700
		b := New()
		for i := range n {
			name := fmt.Sprint("job", i)
			try := func(cs ...driver.Claim) (last driver.Claim) {
				for _, last = range cs {
					last.Name = name
					_, _ = b.Try(t.Context(), last) // the first of the queue is granted
				}
				return last
			}
			switch i % 7 {
			case 0:
				_ = b.Release(t.Context(), try(claim("a")))
			case 1:
				c := try(claim("a"))
				c.Indeterminate = true
				_ = b.Release(t.Context(), c)
			case 2:
				try(claim("a"))
				b.Drop(name)
			case 3:
				try(claim("a")) // its process has died
			case 4:
				try(fair(claim("a")), fair(claim("b")), fair(claim("c")))
			case 5:
				r := reader("r")
				r.Beside = "w"
				try(writer("w"), r)
			case 6:
				set, err := b.SetCount(t.Context(), name, name, 1)
				if err = errors.Join(err, b.CountDown(t.Context(), name, name+" down")); err != nil || !set {
					t.Fatalf("SetCount and CountDown: got %v and error %v", set, err)
				}
			}
		}
		if got := left(b); got < n*6/7 {
			t.Fatalf("got %d records and marks, want one at least for each name that was not released", got)
		}
		time.Sleep(ttl)
		for range 2 * n { // under other names
			mustTry(t, b, claim("b"))
			mustRelease(t, b, claim("b"))
		}
		if got := left(b); got != 0 {
			t.Errorf("got %d records and marks after all leases have ended, want 0", got)
		}
	})
}
