package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// identified plants a store that does not distinguish claims by their owners, but by
// something else.
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

func atLeastBugs() []bug {
	released := func(f func(m *mutant, ctx context.Context, c driver.Claim) error) func(*mutant) {
		return func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error { return f(m, ctx, c) }
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				errs := make([]error, len(cs))
				for i, c := range cs {
					errs[i] = f(m, ctx, c)
				}
				return errs
			}
		}
	}
	return []bug{
		{"frees at once what is to stay taken", []string{"AtLeast/ReleaseLeavesTheNameTaken", "AtLeast/ReleaseAllLeavesTheNameTaken", "AtLeast/OutlastsTheLease"}, released(func(m *mutant, ctx context.Context, c driver.Claim) error {
			c.AtLeast = 0
			return m.Backend.Release(ctx, c)
		})},
		{"leaves names to the lease", []string{"AtLeast/ReleaseLeavesTheNameTaken", "AtLeast/OutlastsTheLease", "AtLeast/ReleaseWithoutItFreesAtOnce"}, released(func(_ *mutant, _ context.Context, c driver.Claim) error {
			return nil
		})},
		{"keeps names that nobody wants kept", []string{"AtLeast/ReleaseWithoutItFreesAtOnce"}, released(func(m *mutant, ctx context.Context, c driver.Claim) error {
			c.AtLeast += time.Hour
			return m.Backend.Release(ctx, c)
		})},
		{"counts AtLeast from the grant", []string{"AtLeast/ReleaseLeavesTheNameTaken"}, released(func(m *mutant, ctx context.Context, c driver.Claim) error {
			if hs := m.holds(ctx, c.Name); len(hs) == 1 {
				c.AtLeast -= hs[0].HeldFor
			}
			return m.Backend.Release(ctx, c)
		})},
		{"frees the name early", []string{"AtLeast/ReleaseLeavesTheNameTaken", "AtLeast/ReleaseAllLeavesTheNameTaken", "AtLeast/OutlastsTheLease"}, released(func(m *mutant, ctx context.Context, c driver.Claim) error {
			c.AtLeast = c.AtLeast * 9 / 10
			return m.Backend.Release(ctx, c)
		})},
		{"lengthens the time when Release is repeated", []string{"AtLeast/ReleaseLeavesTheNameTaken"}, released(func(m *mutant, ctx context.Context, c driver.Claim) error {
			err := m.Backend.Release(ctx, c)
			if hs := m.holds(ctx, c.Name); err != nil && len(hs) == 1 && hs[0].Owner == c.Owner+driver.KeptOwner {
				_ = m.ForceUnlock(ctx, c.Name, hs[0].Holder, "repeated")
				c.Owner += ".again"
				_, _ = m.Backend.Try(ctx, c)
				_ = m.Backend.Release(ctx, c)
			}
			return err
		})},
		{"frees the name when Release is repeated", []string{"AtLeast/ReleaseLeavesTheNameTaken"}, released(func(m *mutant, ctx context.Context, c driver.Claim) error {
			err := m.Backend.Release(ctx, c)
			if hs := m.holds(ctx, c.Name); err != nil && len(hs) == 1 && hs[0].Owner == c.Owner+driver.KeptOwner {
				return m.ForceUnlock(ctx, c.Name, hs[0].Holder, "repeated")
			}
			return err
		})},
		{"keeps a dead holder's name for AtLeast", []string{"AtLeast/CrashFreesAfterTTL"}, changed(func(_ *mutant, c *driver.Claim) {
			c.TTL = max(c.TTL, c.AtLeast)
		})},
		{"wakes nobody when a released name stays taken", []string{"AtLeast/ReleaseWakes"}, neverWakes},
		{"gives the name back to the owner who released it", []string{"AtLeast/ReleaseLeavesTheNameTaken"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				if hs := m.holds(ctx, c.Name); err == nil && len(hs) == 1 && hs[0].Owner == c.Owner+driver.KeptOwner {
					return driver.Outcome{Granted: true, Token: hs[0].Token, ValidFor: c.TTL}, nil
				}
				return o, err
			}
		}},
		{"renews a claim that was released", []string{"AtLeast/ReleaseLeavesTheNameTaken"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				if hs := m.holds(ctx, c.Name); len(hs) == 1 && hs[0].Owner == c.Owner+driver.KeptOwner {
					return driver.Renewal{ValidFor: c.TTL}
				}
				return m.rightRenew(ctx, c)
			}
		}},
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
		{"listens forever", []string{"NotifyHonoursContext"}, func(m *mutant) {
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
