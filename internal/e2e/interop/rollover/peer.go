package rollover

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// Peer is a release in another language: the command `lock` takes the lock, and the command
// `unlock` releases it. Its instances are two threads of p, which take turns as all instances do.
func Peer(p *peer.Process, lock, unlock peer.Command) Release {
	var calls atomic.Int64
	return func(ctx context.Context, work func(context.Context) error) error {
		thread := fmt.Sprintf("instance %d", calls.Add(1)%2)
		do := func(c peer.Command) error {
			c.Thread = thread
			select {
			case r, ok := <-p.Go(c):
				if !ok {
					return errors.New("the program has ended")
				}
				if r.Err() == nil && string(r.Value) == "false" {
					return fmt.Errorf("%s of %q: the lock is held by another", c.Op, c.Name)
				}
				return r.Err()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := do(lock); err != nil {
			return err
		}
		return errors.Join(work(ctx), do(unlock))
	}
}
