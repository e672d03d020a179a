package redishold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// ForceUnlock ends exactly the hold h of the lock called name, and notifies waiters. The lock
// may be of any kind. The parameter `why` is the reason for the owner of the hold. An owner that
// listens (see Notify) gets the reason at once, any other owner at its next renewal or unlock. A
// Redisson client gets no reason. The holder of a permit gets no reason if the Backend does not
// know who holds the permit.
func (b *Backend) ForceUnlock(ctx context.Context, name string, h admin.Holder, why string) error {
	k := b.layout.Keys(name)
	if k.NameErr != nil {
		return k.NameErr
	}
	if id, ok := layout.ShownPermit(h.Owner); ok && b.forms.only == nil { // the client may have been registered since the caller read h
		h.Owner = cmp.Or(b.clients.PermitOwner(ctx, id), h.Owner)
	}
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	// The tombstone must exist until the lease would have ended, because the owner reads it
	// before that time.
	ttl, publish := wire.MS(max(h.Remaining, minTombstoneTTL)), b.publishWith(info)
	ended, err := b.end(ctx, k, info, b.forms.oneKey.Force(k, h, why, ttl, publish))
	if b.forms.only == nil && wire.Means(err, wire.MeansWrongType) {
		ended, err = b.end(ctx, k, info, b.forms.permit.Force(k, h, why, ttl, publish))
	} else if b.forms.only == nil && err == nil && !ended { // force.lua does not end a hold of a read-write lock
		ended, err = b.end(ctx, k, info, b.forms.readWrite.Force(k, h, why, ttl, publish))
	}
	switch {
	case err != nil:
		return b.layout.Classify(k, err)
	case !ended:
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "that hold is gone or has changed"}
	}
	b.clients.NotifyForced(ctx, k, strings.TrimSuffix(h.Owner, layout.WriteField))
	return nil
}

// seqOf returns the Claim.Seq that is a part of `owner`, the text of a message to the client.
// This text is "<client>:<seq>". If another Backend wraps this one, a dot and more text follow.
// The result `ok` is false for any other text.
func seqOf(client, owner string) (seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(owner, client+":")
	number, _, _ := strings.Cut(rest, ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, ok && err == nil && seq > 0
}

// Notify calls the function `hint` when it learns that ForceUnlock has ended a hold of the
// client. ForceUnlock publishes the owner of such a hold on the channel
// holdfast:client:<client>, on which Notify listens. The store has no sessions, so Notify never
// calls `hint` with 0.
func (b *Backend) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	if b.options.Poll != 0 {
		return fmt.Errorf("redis: no messages, because Options.Poll is set: %w", errors.ErrUnsupported)
	}
	attempt, cancel := context.WithTimeout(ctx, waiting.SubscribeLimit)
	defer cancel()
	sub, err := b.conn.Subscribe(attempt, Channel{Name: b.layout.Registration(client)}, func(n Notice) {
		if seq, ok := seqOf(client, n.Payload); ok && !n.Subscribed {
			hint(seq)
		}
	})
	if err != nil {
		return wire.ClassifyLogin(err)
	}
	defer sub.Close()
	<-ctx.Done()
	return ctx.Err()
}
