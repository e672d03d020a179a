package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// listenAgain is how long a quorum waits after a failure of Notify at a member, before it
// listens to that member again.
const listenAgain = 2 * time.Second

var _ driver.Notifier = (*Backend)(nil)

// Notify listens at all members that send notifications, and calls the function `hint` for each
// notification. A forced unlock ends a hold at a majority of the members, and each of these
// members sends a notification. The notification of a single member does not mean that the
// quorum lost the hold. Notify returns the error of ctx when ctx ends, and another error if no
// member can ever send notifications.
func (b *Backend) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	errs := make([]error, len(b.nodes))
	var wg sync.WaitGroup
	for i, n := range b.nodes {
		wg.Go(func() { errs[i] = n.listen(ctx, client, hint) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("quorum: no member sends notices: %w", errors.Join(errs...))
}

// listen listens until ctx ends, or until an error shows that the node will never send
// notifications.
func (n *node) listen(ctx context.Context, client string, hint func(seq uint64)) error {
	for {
		err := n.listenOnce(ctx, client, hint)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, driver.ErrRefused) {
			return fmt.Errorf("%s: %w", n.label, err)
		}
		if err := sleep(ctx, listenAgain); err != nil {
			return err
		}
	}
}

func (n *node) listenOnce(ctx context.Context, client string, hint func(seq uint64)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	store, ok := n.member.(driver.Notifier)
	if !ok {
		return errors.ErrUnsupported
	}
	return store.Notify(ctx, client, hint)
}
