package redishold

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A try that finds the lock busy says who holds it, without a round trip of its own.
// A single server looks that up in the same call, if the holder is not known yet. In
// a cluster the holder's registration may lie on another node, whose trouble must
// not become the lock's: it is read in the background, and the next try knows it.

var _ driver.Drainer = (*Backend)(nil)

// Drain waits for what goes on in the background: who holders are is asked for up to
// a quarter of a second.
func (b *Backend) Drain(ctx context.Context) error { return b.directory.background.Wait(ctx) }

// asksFor returns what registrations begin with, if the answer to t shall say who
// holds the lock; "" if not.
func (b *Backend) asksFor(t *try) string {
	if t.info.Cluster || b.directory.isTold(t.place.lock) {
		return ""
	}
	return b.layout.clients
}

// holder says for people who has the lock that t found busy, and for how long. What
// is not known yet is asked for in the background. The reply to a permit has its id
// for the owner, and afterwards the owner, if that is known.
func (b *Backend) holder(t *try, reply *tryReply) (who string, held time.Duration) {
	if t.claim.Mode == driver.Permit && reply.owner != "" {
		owner, known := b.holderOf(reply.owner, reply.said)
		if known && owner == "" {
			b.directory.tell(t.place.lock)
		}
		if reply.owner = owner; owner == "" {
			return "", 0
		}
	}
	uuid, ok := b.clientIn(reply.owner)
	if !ok {
		return printable(reply.owner), 0
	}
	client, known := b.directory.get(uuid)
	fresh := client.fresh(nameLife)
	if s := reply.said; s != nil && !fresh { // of many locks each may say the same
		client, known, fresh = b.parseClient(uuid, s.card), true, true
		b.directory.put(uuid, client)
	}
	if known {
		b.directory.tell(t.place.lock)
	}
	if !fresh {
		b.directory.inBackground(uuid, func(ctx context.Context) { b.learn(ctx, uuid) })
	}
	return b.describe(reply.owner, client, known)
}

// holderOf returns the owner of a permit, "" if nobody is registered for it, or if
// that is not known yet. Then it is asked for in the background.
func (b *Backend) holderOf(id string, s *said) (owner string, known bool) {
	stem, number, ok := cutPermit(id)
	if !ok {
		return "", true
	}
	if s != nil && (s.client == "" || fits(stem, s.client)) {
		b.putStem(stem, s.client)
	}
	client, known := b.directory.get(stem)
	if !client.fresh(strangerLife) {
		b.directory.inBackground(stem, func(ctx context.Context) {
			if uuid := b.whose(ctx, false, map[string]bool{stem: true})[stem]; uuid != "" {
				b.learn(ctx, uuid)
			}
		})
	}
	if !fits(stem, client.client.ID) {
		return "", known
	}
	return client.client.ID + ":" + number, true
}
