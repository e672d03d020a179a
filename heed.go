package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/renew"
)

// Heed listens for word that somebody has broken a hold of l, see Break, until ctx
// ends, and returns ctx's error. On such word the hold's renewal is made at once,
// so that the holder learns of the loss in a round trip and not in TTL/3. Run it
// beside long holds that people may end by hand; it costs a subscription.
//
// Nothing depends on it: a hold whose word got lost ends with its next renewal.
// An error other than ctx's says that the store does not listen, at present or,
// with errors.ErrUnsupported, at all.
func (l *Locker) Heed(ctx context.Context) error {
	notifier, ok := l.backend.(driver.Notifier)
	if !ok {
		return fmt.Errorf("listen for broken locks: not possible on %s: %w", l.info.Name, errors.ErrUnsupported)
	}
	if err := notifier.Notify(ctx, l.id, l.hint); err != nil {
		return fmt.Errorf("listen for broken locks: %w", err)
	}
	return nil
}

// hint makes the renewal of the owner's lease due now, if it is held.
func (l *Locker) hint(owner string) {
	found := l.renewals.Find(func(i renew.Item) bool { return i.(*lease).owner == owner })
	if found != nil {
		l.renewals.Hurry(found)
	}
}
