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
)

var _ driver.Notifier = (*Backend)(nil)

// ForceUnlock ends exactly the hold h of name and wakes waiters. Its owner is told, and
// if it does not listen it learns why when it next renews or unlocks; a Redisson
// client, and the holder of a permit that is not known, only that it is gone.
func (b *Backend) ForceUnlock(ctx context.Context, name string, h admin.Holder, why string) error {
	if err := b.layout.place(name).refusal; err != nil {
		return err
	}
	if id, ok := shownPermit(h.Owner); ok && b.own == nil { // its holder may have come to be known
		h.Owner = cmp.Or(b.permitOwner(ctx, id), h.Owner)
	}
	if err := b.breakHold(ctx, name, h, why); err != nil {
		return err
	}
	b.tell(ctx, b.layout.locate(name), strings.TrimSuffix(h.Owner, writeField))
	return nil
}

// tell says that owner's hold was broken, to its client and to the first in the
// queue of a fair lock, who has a channel of its own. The hold is over already:
// where it cannot be said, they look within their usual time.
func (b *Backend) tell(ctx context.Context, p place, owner string) {
	info, err := b.ask(ctx)
	if err != nil {
		return
	}
	scripts := b.forPeople.load()
	var calls []Call
	if uuid := clientOf(owner); uuid != "" {
		// Every node of a cluster passes PUBLISH on, whoever listens where.
		calls = append(calls, Call{Script: scripts.tell, Args: []string{b.clientChannel(uuid), owner, "PUBLISH"}})
	}
	if b.own == nil {
		queue, _, _ := b.layout.queue(p)
		args := append([]string{p.channel + ":"}, info.publishWith()...)
		calls = append(calls, Call{Script: scripts.wakeFair, Keys: []string{queue}, Args: args})
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	for _, result := range b.do(ctx, calls...) {
		if result.Err != nil {
			b.log.Debug("redis: say that a lock was broken", "name", p.name, "error", result.Err)
		}
	}
}

// clientChannel is where a client hears of its holds.
func (b *Backend) clientChannel(uuid string) string { return b.layout.client(uuid) }

// seqOf returns the Claim.Seq in a message to a client, which names an owner of its
// own: "<client>:<seq>", with more behind a dot where a store wraps this one.
func seqOf(client, owner string) (seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(owner, client+":")
	number, _, _ := strings.Cut(rest, ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, ok && err == nil && seq > 0
}

// Notify listens on the channel holdfast:client:<client>, on which ForceUnlock says
// which hold it has ended. A client has no session that could be over: the hint is
// never 0.
func (b *Backend) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	if b.options.Poll != 0 {
		return fmt.Errorf("redis: Options.Poll asks not to listen: %w", errors.ErrUnsupported)
	}
	attempt, cancel := context.WithTimeout(ctx, subscribeLimit)
	defer cancel()
	sub, err := b.conn.Subscribe(attempt, Channel{Name: b.clientChannel(client)}, func(n Notice) {
		if seq, ok := seqOf(client, n.Payload); ok && !n.Subscribed {
			hint(seq)
		}
	})
	if err != nil {
		return classifyLogin(err)
	}
	defer sub.Close()
	<-ctx.Done()
	return ctx.Err()
}
