package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// identified plants a store that tells claims apart by something else than their owners.
func identified(by func(driver.Claim) string) func(*mutant) {
	return func(m *mutant) {
		as := func(c driver.Claim) driver.Claim {
			c.Owner = by(c)
			return c
		}
		m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) { return m.Backend.Try(ctx, as(c)) }
		m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal { return m.rightRenew(ctx, as(c)) }
		m.release = func(ctx context.Context, c driver.Claim) error { return m.Backend.Release(ctx, as(c)) }
	}
}

// hints plants another hint in place of those that the store gives.
func hints(hint func(seq uint64, hint func(uint64))) func(*mutant) {
	return func(m *mutant) {
		m.notify = func(ctx context.Context, client string, right func(uint64)) error {
			return m.Backend.Notify(ctx, client, func(seq uint64) { hint(seq, right) })
		}
	}
}

func noticeBugs() []bug {
	return []bug{
		{"never notifies", []string{"NotifiesOfForce"}, hints(func(uint64, func(uint64)) {})},
		{"notifies of another claim", []string{"NotifiesOfForce"}, hints(func(seq uint64, hint func(uint64)) { hint(seq + 1) })},
		{"notifies another client", []string{"NotifiesOfForce"}, func(m *mutant) {
			m.notify = func(ctx context.Context, client string, hint func(uint64)) error {
				return m.Backend.Notify(ctx, client+"0", hint)
			}
		}},
		{"ends to listen with the first notice", []string{"NotifiesOfForce"}, func(m *mutant) {
			m.notify = func(context.Context, string, func(uint64)) error { return nil }
		}},
		{"listens for ever", []string{"NotifyHonoursContext"}, func(m *mutant) {
			m.notify = func(ctx context.Context, client string, hint func(uint64)) error {
				err := m.Backend.Notify(ctx, client, hint)
				time.Sleep(time.Hour)
				return err
			}
		}},
	}
}

func ownerBugs() []bug {
	return []bug{
		{"tells claims apart by their numbers", []string{"OwnersTellClaimsApart"}, identified(func(c driver.Claim) string {
			return fmt.Sprint(c.Seq)
		})},
		{"takes no notice of what is appended to an owner", []string{"OwnersTellClaimsApart"}, identified(func(c driver.Claim) string {
			return fmt.Sprint(c.Client, c.Seq)
		})},
	}
}
