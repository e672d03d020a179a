package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// ReleaseAll releases each of cs.
func (b *Backend) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for i, c := range cs {
		errs[i] = b.Release(ctx, c)
	}
	return errs
}

// StartRelease releases c before it returns. finish returns -1, because the number of waiters
// that were notified is not known, and the error of the release.
func (b *Backend) StartRelease(ctx context.Context, c driver.Claim) (finish func() (int, error)) {
	err := b.Release(ctx, c)
	return func() (int, error) { return -1, err }
}
