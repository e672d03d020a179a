package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// ReleaseAll releases each claim in cs, as Release does.
func (b *Backend) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for i, c := range cs {
		errs[i] = b.Release(ctx, c)
	}
	return errs
}

// StartRelease releases c before it returns. The function `finish` returns the error of the
// release. The number that `finish` returns is -1, because the Backend does not count the
// waiters that it notifies.
func (b *Backend) StartRelease(ctx context.Context, c driver.Claim) (finish func() (int, error)) {
	err := b.Release(ctx, c)
	return func() (int, error) { return -1, err }
}
