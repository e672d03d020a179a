package drivertest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// TestPausedProcess makes the process pause before or after one of the calls of a check,
// for longer than a brief lease, and than a name stays taken: that is no fault of the
// store.
func TestPausedProcess(t *testing.T) {
	for _, c := range checks() {
		if !ofBriefClaims(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for n := range int64(12) {
				for _, when := range []string{"before", "after"} {
					rec := judge(t, c.name, func() driver.Backend { return paused(n, when) })
					if len(rec.Complaints) > 0 {
						t.Errorf("complaints after a pause %s call %d:\n\t%s", when, n, rec)
					}
				}
			}
		})
	}
}

// ofBriefClaims reports whether a check waits for the end of a lease, or until a name may
// be free.
func ofBriefClaims(check string) bool {
	for _, part := range []string{"ExpiresAlone", "ReadersExpireOneByOne", "ValidForIsALowerBound", "RenewExtendsBeyondTTL", "AtLeast/"} {
		if strings.Contains(check, part) {
			return !strings.HasSuffix(check, "Wakes")
		}
	}
	return false
}

// paused returns a store whose process pauses before or after the nth call.
func paused(n int64, when string) *mutant {
	m := &mutant{Backend: memhold.New()}
	const pause = 3 * time.Second
	var calls atomic.Int64
	call := func(do func()) {
		mine := calls.Add(1)-1 == n
		if mine && when == "before" {
			time.Sleep(pause)
		}
		do()
		if mine && when == "after" {
			time.Sleep(pause)
		}
	}
	m.try = func(ctx context.Context, c driver.Claim) (o driver.Outcome, err error) {
		call(func() { o, err = m.Backend.Try(ctx, c) })
		return o, err
	}
	m.renew = func(ctx context.Context, c driver.Claim) (r driver.Renewal) {
		call(func() { r = m.rightRenew(ctx, c) })
		return r
	}
	m.release = func(ctx context.Context, c driver.Claim) (err error) {
		call(func() { err = m.Backend.Release(ctx, c) })
		return err
	}
	return m
}
