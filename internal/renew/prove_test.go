package renew

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// say changes the count in the lease's claim.
func (l *lease) say(holds int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = holds
}

// A proof is one call, which has the claim as it is then and extends the lease.
func TestProve(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		l := k.add("job")
		time.Sleep(time.Second / 2)
		var said []int
		k.answers(each(func(c driver.Claim) driver.Renewal {
			k.change(func() { said = append(said, c.Count) })
			return driver.Renewal{ValidFor: c.TTL}
		}))
		l.say(2)
		if err := k.Prove(t.Context(), l, 0); err != nil {
			t.Fatal(err)
		}
		k.change(func() {
			if len(said) != 1 || said[0] != 2 {
				t.Errorf("the calls said %v, want one that says 2", said)
			}
		})
		between(t, "left", l.Until()-k.Clock.Now(), ttl-margin, ttl-margin)
		k.mu.Lock()
		if len(k.calls) != 1 || len(k.reports) != 0 {
			t.Errorf("%d calls and %d renewals were reported, want the call alone", len(k.calls), len(k.reports))
		}
		k.mu.Unlock()
		time.Sleep(time.Minute) // it is renewed as usual
		l.held(t)
		k.Remove(l)
	})
}

// A proof waits for a renewal that is under way with an older claim, and no renewal begins
// before the proof has ended.
func TestProofAndRenewalsTakeTurns(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		under, most := 0, 0
		var said []int
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			k.change(func() {
				under++
				most = max(most, under)
				said = append(said, cs[0].Count)
			})
			time.Sleep(100 * time.Millisecond)
			k.change(func() { under-- })
			return grant(ctx, cs)
		})
		l := k.add("job")
		k.Hurry(l)
		time.Sleep(50 * time.Millisecond)
		l.say(2)
		start := time.Now()
		go func() {
			time.Sleep(60 * time.Millisecond)
			k.Hurry(l)
		}()
		if err := k.Prove(t.Context(), l, 0); err != nil {
			t.Fatal(err)
		}
		between(t, "it took", time.Since(start), 150*time.Millisecond, 150*time.Millisecond)
		time.Sleep(time.Second)
		k.mu.Lock()
		if most != 1 {
			t.Errorf("%d calls for one lease were under way together", most)
		}
		if len(said) != 3 || said[0] != 1 || said[1] != 2 || said[2] != 2 {
			t.Errorf("the calls said %v, want 1, 2 and 2", said)
		}
		k.mu.Unlock()
		k.Remove(l)
	})
}

// The lease ends in time while it is being proved.
func TestLeaseExpiresDuringAProof(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(hang)
		start := time.Now()
		l := k.add("job")
		if err := k.Prove(t.Context(), l, 0); !errors.Is(err, ErrOver) {
			t.Errorf("got %v, want that it is over", err)
		}
		if end, _ := l.state(); end != "expired" {
			t.Errorf("got %q, want expired", end)
		}
		between(t, "it ended after", l.endedAt().Sub(start), ttl-margin, ttl-margin)
		between(t, "the proof ended after", time.Since(start), ttl-margin, ttl+ttl/2) // with its last call
	})
}

func TestHowAProofFails(t *testing.T) {
	refused := fmt.Errorf("%w: NOPERM", driver.ErrRefused)
	for name, test := range map[string]struct {
		answers  []error // of the calls; the last one is repeated
		patience int
		limit    time.Duration // the time limit of the context
		want     error
		calls    int
		end      string
	}{
		"succeeds later":    {[]error{errReset, driver.ErrNotExecuted, nil}, 0, time.Minute, nil, 3, ""},
		"refused":           {[]error{errReset, refused}, 0, time.Minute, refused, 2, ""},
		"gone":              {[]error{driver.ErrGone}, 0, time.Minute, driver.ErrGone, 1, "gone"},
		"no more patience":  {[]error{errReset}, 3, time.Minute, errReset, 3, ""},
		"the context ends":  {[]error{errReset}, 0, 60 * time.Millisecond, context.DeadlineExceeded, 0, ""},
		"the context ended": {[]error{nil}, 0, 0, context.DeadlineExceeded, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, ttl, func(t *testing.T, k *kit) {
				n := 0
				l := k.add("job")
				k.answers(each(func(c driver.Claim) driver.Renewal {
					k.mu.Lock()
					defer k.mu.Unlock()
					err := test.answers[min(n, len(test.answers)-1)]
					n++
					return driver.Renewal{ValidFor: c.TTL, Err: err}
				}))
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				if err := k.Prove(ctx, l, test.patience); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				} else if name == "the context ends" && !errors.Is(err, errReset) {
					t.Errorf("got %v, want also what the store said", err)
				}
				k.change(func() {
					if test.calls > 0 && n != test.calls {
						t.Errorf("%d calls, want %d", n, test.calls)
					}
				})
				if end, _ := l.state(); end != test.end {
					t.Errorf("got %q, want %q", end, test.end)
				}
				k.answers(grant)
				time.Sleep(time.Minute)
				if test.end == "" { // it is renewed as usual
					l.held(t)
				}
				k.Remove(l)
			})
		})
	}
}

// If a renewal hangs, a caller that waits for its end gives up when its context ends, and
// the renewals go on.
func TestProofGivesUpWaiting(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(hang)
		l := k.add("job")
		k.Hurry(l)
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := k.Prove(ctx, l, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		if n := len(k.renewals("")); n != 1 {
			t.Errorf("%d calls, want the one that hangs", n)
		}
		k.answers(grant)
		time.Sleep(time.Minute)
		l.held(t)
		k.Remove(l)
	})
}

// An answer that comes when the lease is over proves nothing.
func TestProofComesTooLate(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			time.Sleep(ttl)
			return grant(ctx, cs)
		})
		l := k.add("job")
		if err := k.Prove(t.Context(), l, 0); !errors.Is(err, ErrOver) {
			t.Errorf("got %v, want that it is over", err)
		}
		synctest.Wait()
		if end, _ := l.state(); end != "expired" {
			t.Errorf("got %q, want expired", end)
		}
	})
}

// If the store's code panics during a proof, the caller gets the panic, and renewals go on.
func TestRenewalsGoOnAfterAPanic(t *testing.T) {
	inBubble(t, ttl, func(t *testing.T, k *kit) {
		l := k.add("job")
		k.answers(func(context.Context, []driver.Claim) ([]driver.Renewal, error) { panic("no") })
		func() {
			defer func() { _ = recover() }()
			_ = k.Prove(t.Context(), l, 0)
			t.Error("Prove returned")
		}()
		k.answers(grant)
		time.Sleep(time.Minute)
		l.held(t)
		k.Remove(l)
	})
}
