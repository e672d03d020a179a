package drivertest

import (
	"context"
	"fmt"

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
