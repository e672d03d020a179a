package redishold

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// ReleaseAll releases each of cs; the calls share round trips.
func (b *Backend) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { errs[i] = b.Release(ctx, c) })
	}
	wg.Wait()
	return errs
}
