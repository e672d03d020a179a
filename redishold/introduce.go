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
func (b *Backend) Drain(ctx context.Context) error { return b.names.background.Wait(ctx) }

// asksFor returns what registrations begin with, if the answer to t shall say who
// holds the lock; "" if not.
func (b *Backend) asksFor(t *try) string {
	if t.info.Cluster || b.names.isTold(t.place.lock) {
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
			b.names.tell(t.place.lock)
		}
		if reply.owner = owner; owner == "" {
			return "", 0
		}
	}
	uuid, ok := b.clientIn(reply.owner)
	if !ok {
		return printable(reply.owner), 0
	}
	client, known, fresh := b.names.get(uuid)
	if s := reply.said; s != nil && !fresh { // of many locks each may say the same
		client, known, fresh = parseName(s.text, s.now), true, true
		b.names.put(uuid, client)
	}
	if known {
		b.names.tell(t.place.lock)
	}
	if !fresh {
		b.inBackground(uuid, func(ctx context.Context) { b.learn(ctx, uuid) })
	}
	return b.describe(reply.owner, client, known)
}

// learn asks who a client is.
func (b *Backend) learn(ctx context.Context, uuid string) {
	if read, ok := b.readName(ctx, uuid); ok {
		b.names.put(uuid, read)
	}
}

// holderOf returns the owner of a permit, "" if nobody is registered for it, or if
// that is not known yet. Then it is asked for in the background.
func (b *Backend) holderOf(id string, s *said) (owner string, known bool) {
	stem, number, ok := cutPermit(id)
	if !ok {
		return "", true
	}
	if s != nil && (s.client == "" || fits(stem, s.client)) {
		b.holders.put(stem, s.client)
	}
	uuid, known, fresh := b.holders.get(stem)
	if !fresh {
		b.inBackground(stem, func(ctx context.Context) {
			if uuid := b.whose(ctx, false, map[string]bool{stem: true})[stem]; uuid != "" {
				b.learn(ctx, uuid)
			}
		})
	}
	if uuid == "" {
		return "", known
	}
	return uuid + ":" + number, true
}

// inBackground runs fn, which asks for who, unless that is under way.
func (b *Backend) inBackground(who string, fn func(context.Context)) {
	n := &b.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked[who] {
		return
	}
	n.asked[who] = true
	n.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), asideLimit)
		defer cancel()
		fn(ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.asked, who)
	})
}
