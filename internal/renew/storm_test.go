package renew

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

type answers = func(context.Context, []driver.Claim) ([]driver.Renewal, error)

// frozen answers the calls that hang when thaws is closed.
func frozen(thaws <-chan struct{}) answers {
	return func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
		select {
		case <-thaws:
			return grant(ctx, cs)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A store that fails for two seconds, in whatever way, gets few calls in that time and
// after it, however many leases there are, and no lease is lost.
func TestFailuresAreNoStorm(t *testing.T) {
	for how, answer := range map[string]answers{
		"is frozen":   nil,
		"errors":      fail,
		"each errors": each(func(driver.Claim) driver.Renewal { return driver.Renewal{Err: errReset} }),
		"some error": each(func(c driver.Claim) driver.Renewal {
			if len(c.Name)%2 == 0 {
				return driver.Renewal{Err: errReset}
			}
			return driver.Renewal{ValidFor: c.TTL}
		}),
	} {
		for _, n := range []int{100, 2_000} {
			t.Run(fmt.Sprintf("%s/%d", how, n), func(t *testing.T) { outage(t, n, answer) })
		}
	}
}

// outage renews n leases on a store that answers with answer for two seconds. If answer is
// nil, it hangs.
func outage(t *testing.T, n int, answer answers) {
	const length, most = 6 * time.Second, 50
	inBubble(t, length, func(t *testing.T, k *kit) {
		leases := k.addMany(n)
		time.Sleep(length / 2)
		thaws := make(chan struct{})
		if answer == nil {
			answer = frozen(thaws)
		}
		k.answers(answer)
		time.Sleep(2 * time.Second)
		k.answers(grant)
		close(thaws)
		time.Sleep(length)
		if got := k.mostInASecond(); got > most {
			t.Errorf("%d calls in a second, want %d at most", got, most)
		}
		for _, l := range leases {
			l.held(t)
		}
		k.removeAll(leases...)
	})
}

// mostInASecond returns how many calls there were in the second with the most.
func (k *kit) mostInASecond() (most int) {
	calls, first := k.renewals(""), 0
	for last := range calls {
		for calls[last].at.Sub(calls[first].at) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// Calls that hang do not delay others: each lease of a healthy part of the store is renewed
// in time.
func TestHungCallsDelayNobody(t *testing.T) {
	inBubble(t, 6*time.Second, func(t *testing.T, k *kit) {
		leases := k.addMany(2_000)
		k.answers(func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answers, hangs := make([]driver.Renewal, len(cs)), false
			for i, c := range cs {
				if answers[i].ValidFor = c.TTL; c.Name[len(c.Name)-1] == '7' {
					answers[i].Err, hangs = errReset, true
				}
			}
			if hangs {
				<-ctx.Done()
			}
			return answers, nil
		})
		time.Sleep(2 * time.Minute)
		for _, l := range leases {
			if l.name[len(l.name)-1] != '7' {
				l.held(t)
			}
		}
		k.change(func() {
			for _, r := range k.reports {
				if r.Late && r.Err == nil {
					t.Errorf("%s was renewed with %v left", r.Item.(*lease).name, r.Margin)
				}
			}
		})
		k.removeAll(leases...)
	})
}
