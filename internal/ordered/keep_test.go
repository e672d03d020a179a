package ordered_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// hold takes n names.
func (p *process) hold(n int) (claims []driver.Claim) {
	for i := range n {
		c := p.claim()
		c.Name = fmt.Sprint("job ", i)
		p.granted(c, true)
		claims = append(claims, c)
	}
	return claims
}

// While a store does not answer, one call to extend the session is under way, however many
// renewals wait for it. Each answer counts from when its own call was sent.
func TestOneCallExtendsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		claims := p.hold(20)
		var underWay, most atomic.Int32
		thaws := make(chan struct{})
		m.spoil(func(ctx context.Context, call string) error {
			if call != "extend" {
				return nil
			}
			most.Store(max(most.Load(), underWay.Add(1)))
			defer underWay.Add(-1)
			select {
			case <-thaws:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil)
		const apart = 100 * time.Millisecond
		var wg sync.WaitGroup
		for i, c := range claims {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * apart)
				limit := time.Minute
				if i%2 == 0 { // the first caller gives up before there is an answer
					limit = apart * 3 / 2
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				answers, err := p.Renew(ctx, []driver.Claim{c})
				if i%2 == 0 {
					if err == nil {
						t.Errorf("renewal %d has an answer: %v", i, answers)
					}
					return
				}
				// The call for all of them was sent when that of the first gave up.
				if err != nil || answers[0].ValidFor != ttl-max(time.Duration(i)*apart-apart*3/2, 0) {
					t.Errorf("renewal %d: got %v, %v", i, answers, err)
				}
			})
		}
		time.Sleep(3 * time.Second)
		close(thaws)
		wg.Wait()
		if n := m.count("extend"); most.Load() != 1 || n != 2 {
			t.Errorf("%d calls, of which %d at a time, want two, one after the other", n, most.Load())
		}
		m.spoil(nil, nil)
		p.renewed(claims[0], nil)
	})
}

// A renewal does not use the answer of a call that began long before it, nor of one before
// the machine was suspended.
func TestOldCallsExtendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		var ahead atomic.Int64
		p.SetWall(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		claims := p.hold(2)
		var calls atomic.Int32
		m.spoil(nil, func(_ context.Context, call string) error {
			if call == "extend" && calls.Add(1) == 1 {
				time.Sleep(ttl / 4)
			}
			return nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { p.renewed(claims[0], nil) })
		synctest.Wait()
		ahead.Store(int64(ttl))
		if got := p.renewed(claims[1], nil).ValidFor; got != ttl {
			t.Errorf("valid for %v, want %v", got, ttl)
		}
		wg.Wait()
	})
}

// The entries of a session are listed once in a third of its TTL, however many renewals
// there are. Each renewal finds a removed entry at once.
func TestEntriesAreListedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		claims := p.hold(20)
		for range 60 {
			for _, c := range claims[1:] {
				p.renewed(c, nil)
			}
			time.Sleep(ttl / 20)
		}
		if n := m.count("own"); n < 8 || n > 10 {
			t.Errorf("listed %d times in three times the TTL, want 9", n)
		}
		listed := m.count("own")
		m.drop(func(e entry) bool { return e.Name == claims[1].Name })
		p.renewed(claims[1], driver.ErrGone)
		if n := m.count("own"); n != listed {
			t.Errorf("listed %d times more", n-listed)
		}
	})
}
