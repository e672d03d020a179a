package redishold

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/fair"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Try makes one attempt to take c.Name for c.Owner. The first Try of a Backend also reads
// the server's version and settings, and checks the permissions of the user.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	t, err := b.prepare(ctx, c)
	if err != nil {
		return driver.Outcome{}, err
	}
	return b.outcome(ctx, &t, b.tryOnce(ctx, &t))
}

func (b *Backend) tryOnce(ctx context.Context, t *try) Result {
	e := b.callBufs.Get().(*callBuf)
	e.call = Call(b.acquire(t, e.buffers()))
	var result Result
	if b.options.Replicas == 0 && b.clients.Registered(t.claim) {
		result = b.one(ctx, &e.call)
	} else {
		result = b.doReplicated(ctx, t.info, []Call{e.call}, t.claim)[0]
	}
	if isAnswer(result) {
		b.callBufs.Put(e)
	}
	if second, ok := b.beside(t, result); ok {
		return b.doReplicated(ctx, t.info, []Call{second})[0]
	}
	return result
}

// TryAll makes one attempt for each claim in cs, in one round trip for each server.
func (b *Backend) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	attempts := make([]driver.Attempt, len(cs))
	m := b.newBatchBuf()
	for i := range cs {
		t, err := b.prepare(ctx, cs[i])
		if err != nil {
			attempts[i].Err = err
			continue
		}
		m.tries, m.at = append(m.tries, t), append(m.at, i)
	}
	if len(m.at) == 0 {
		return attempts
	}
	m.fill(3, kinds.AcquireArgs, func(buf kinds.Buffers, j int) wire.Call { return b.acquire(&m.tries[j], buf) })
	first := m.at[0]
	results := b.doAll(ctx, m.tries[0].info, b.doReplicated, m, cs[first:first+1])
	b.besideAll(ctx, m.tries, results)
	for j, result := range results {
		a := &attempts[m.at[j]]
		a.Outcome, a.Err = b.outcome(ctx, &m.tries[j], result)
	}
	b.recycle(m)
	return attempts
}

// try is an attempt to acquire a claim.
type try struct {
	claim driver.Claim
	keys  layout.Keys
	info  ServerInfo

	// Versions of channels before the attempt, see driver.Outcome.Ahead.
	ahead  uint64
	shared uint64 // set only for a fair claim, see fair.Ahead
}

// prepare returns a try of c whose call is not sent yet. If prepare returns an error, nothing
// was sent for c.
func (b *Backend) prepare(ctx context.Context, c driver.Claim) (try, error) {
	f := b.forms.of(c)
	k, info, err := b.ready(ctx, c.Name, f)
	if err != nil {
		return try{}, err
	}
	channel := f.Channel(k, c)
	t := try{claim: c, keys: k, info: info, ahead: b.topics.Version(waiting.Key{Channel: channel, Client: c.Client})}
	if _, ok := f.(*fair.Lock); ok {
		t.shared = b.topics.LastVersion(waiting.Key{Channel: fair.SharedChannel(channel, c), Client: c.Client})
	}
	return t, nil
}

// acquire returns the call of t. The call uses the slices of buf.
func (b *Backend) acquire(t *try, buf kinds.Buffers) wire.Call {
	publish := b.publishWith(t.info)
	call := b.forms.of(t.claim).Acquire(buf, t.keys, t.claim, publish)
	if b.announces(t) {
		call.Args = append(append(call.Args, t.keys.Channel), publish[len(publish)-1])
	}
	return call
}

// announces reports whether the script must publish the grant of t, so that other waiting
// clients know that the lock is taken. A grant is published only on the channel on which these
// clients count releases, because messages on two channels may overtake each other.
func (b *Backend) announces(t *try) bool {
	return t.ahead != 0 && !t.claim.Quiet && b.forms.of(t.claim) == b.forms.exclusive &&
		b.topics.Announces(waiting.Key{Channel: t.keys.Channel, Client: t.claim.Client})
}

// staggers reports whether clients that wait for a lock of the form stagger their tries. In the
// layouts Plain and Timestamp the clients stagger their tries, too, but get no message that the
// lock is taken.
func (b *Backend) staggers(f kinds.Form) bool { return b.forms.only != nil || f == b.forms.exclusive }

// outcome returns the Outcome of t. The parameter `result` is the result of the call of t.
func (b *Backend) outcome(ctx context.Context, t *try, result Result) (driver.Outcome, error) {
	short := shortOf(result)
	if result.Err != nil && short == nil {
		return driver.Outcome{}, wire.NotBegun(b.layout.Classify(t.keys, result.Err))
	}
	reply, err := parseTry(result.Value)
	if err != nil {
		return driver.Outcome{}, err
	}
	switch {
	case reply.token != 0 && short != nil:
		return driver.Outcome{}, b.undoGrant(ctx, t, short)
	case reply.token != 0:
		if t.ahead != 0 && b.staggers(b.forms.of(t.claim)) {
			b.topics.Granted(waiting.Key{Channel: t.keys.Channel, Client: t.claim.Client})
		}
		return driver.Outcome{Granted: true, Token: reply.token, ValidFor: t.claim.TTL, Permits: reply.permits}, nil
	case reply.otherKind:
		return driver.Outcome{}, kinds.OtherKind(t.keys)
	case reply.ended:
		return driver.Outcome{}, tombstoneError(reply.tombstone)
	default:
		out := driver.Outcome{RetryAfter: retryAfter(reply.remaining)}
		out.Holder, out.HeldFor = b.clients.Holder(ctx, t.claim.Mode, reply.owner, t.claim.NoQueue && !t.info.Cluster)
		out.Kept = driver.Kept(reply.owner)
		if reply.alive > 0 {
			near := reply.others == 0 && (reply.owner == "" || b.clients.IsHoldfast(reply.owner))
			out.Ahead, out.Queued = fair.Ahead{Shared: t.shared, Own: t.ahead, Near: near, Alive: reply.alive}, true
		} else {
			out.Ahead = t.ahead
		}
		return out, nil
	}
}

// retryAfter returns the Outcome.RetryAfter for a lease that remains for the duration `left`. A
// negative `left` means that the key has no TTL. In that case the result is 0, which means that
// the time is unknown. If `left` is 0, the lease ends within a millisecond, so the result is a
// millisecond.
func retryAfter(left time.Duration) time.Duration {
	if left < 0 {
		return 0
	}
	return max(left, time.Millisecond)
}
