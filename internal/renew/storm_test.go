package renew

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A store that fails for two seconds, in whatever way, gets few calls meanwhile and
// afterwards, however many leases there are, and no lease is lost.
func TestFailuresAreNoStorm(t *testing.T) {
	const (
		length = 6 * time.Second
		outage = 2 * time.Second
		most   = 200 // calls a second
	)
	var thaws chan struct{}
	for how, answer := range map[string]func(context.Context, []driver.Claim) ([]driver.Renewal, error){
		"is frozen": func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-thaws:
				return grant(ctx, cs)
			}
		},
		"errors":      fail,
		"each errors": each(func(driver.Claim) driver.Renewal { return driver.Renewal{Err: errReset} }),
		"some error": each(func(c driver.Claim) driver.Renewal {
			if len(c.Name)%2 == 0 {
				return driver.Renewal{Err: errReset}
			}
			return driver.Renewal{ValidFor: c.TTL}
		}),
	} {
		for _, n := range []int{500, 5_000, 10_000} {
			t.Run(fmt.Sprintf("%s/%d", how, n), func(t *testing.T) {
				inBubble(t, length, func(t *testing.T, k *kit) {
					leases := k.addMany(n)
					time.Sleep(length)
					for range 3 {
						thaws = make(chan struct{})
						k.answers(answer)
						time.Sleep(outage)
						k.answers(grant)
						close(thaws)
						time.Sleep(length)
					}
					if got := k.mostInASecond(); got > most {
						t.Errorf("%d calls in a second, want %d at most", got, most)
					}
					for _, l := range leases {
						l.held(t)
					}
					k.removeAll(leases...)
				})
			})
		}
	}
}

// mostInASecond returns how many calls there were in the second with the most.
func (k *kit) mostInASecond() (most int) {
	calls := k.renewals("")
	for first, last := 0, 0; last < len(calls); last++ {
		for calls[last].at.Sub(calls[first].at) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
