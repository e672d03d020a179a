package redishold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
)

// StartRelease is Release in two steps. It returns when the request is sent, so that a
// Try of the same name after it arrives later, if the client can order them. finish waits
// for the answer; the caller must call it exactly once.
//
// others is the number of other clients that got the message of the release and may be
// waiting. It is -1 if unknown: for fair and read-write locks, for waiters that poll, for
// an indeterminate claim, and in a cluster if no client got it at the node of the lock.
// If the Conn is not a Beginner, or the server is not known yet, finish sends the
// release. Backends with one Conn count as one client.
func (b *Backend) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	info := b.server.known.Load()
	if b.beginner == nil || info == nil || c.Indeterminate {
		return b.releaseLater(ctx, c)
	}
	r := b.newRelease(ctx, *info, c)
	r.answer = b.beginner.Begin(ctx, &r.sent.call)
	return r.finish
}

// releaseLater is a StartRelease whose call finish makes. It is a function of its own
// so that only its calls keep a copy of c.
func (b *Backend) releaseLater(ctx context.Context, c driver.Claim) (finish func() (int, error)) {
	return func() (int, error) { return b.release(ctx, c) }
}

// release is one on its way.
type release struct {
	backend *Backend
	finish  func() (int, error) // made once for all that r is used for

	ctx    context.Context
	claim  driver.Claim
	keys   layout.Keys
	info   ServerInfo
	sent   callBuf
	answer func() Result

	// This process when the release was made.
	channel   string        // on which all waiters learn of it; "" if there is none
	staggered bool          // they take turns
	state     waiting.State // of that channel
}

// newRelease returns the release of c, which is not sent yet.
func (b *Backend) newRelease(ctx context.Context, info ServerInfo, c driver.Claim) *release {
	r := b.releases.Get().(*release)
	f := b.forms.of(c)
	r.ctx, r.info, r.claim, r.keys = ctx, info, c, b.layout.Keys(c.Name)
	r.channel = ""
	if f.ReachesAll() && b.topics.Poll == 0 && !b.cannotListen.Load() {
		r.channel, r.staggered = f.Channel(r.keys, c), b.staggers(f)
		r.state = b.topics.State(r.channel)
	}
	r.sent.call = Call(f.Release(r.sent.buffers(), r.keys, c, b.publishWith(info)))
	return r
}

// answered reads the server's answer, and gives r back.
func (r *release) answered(result Result) (others int, err error) {
	b, ctx, c, info := r.backend, r.ctx, r.claim, r.info
	released, receivers, err := b.releaseAnswer(r.keys, result)
	others = -1
	if released {
		others = r.others(receivers)
	}
	r.ctx, r.answer = nil, nil
	if isAnswer(result) { // else the Conn may still look at r
		b.releases.Put(r)
	}
	if err != nil || released {
		return others, err
	}
	return others, b.lostBefore(ctx, info, c)
}

// lostBefore is the error for a claim that is gone when it is released.
func (b *Backend) lostBefore(ctx context.Context, info ServerInfo, c driver.Claim) (err error) {
	err = unexplained()
	b.explain(ctx, info, loss{&c, &err})
	return err
}

// others is receivers without this process. The channel's topic learns of it.
func (r *release) others(receivers int) int {
	if r.channel == "" || receivers < 0 {
		return -1
	}
	topics := &r.backend.topics
	state := topics.State(r.channel)
	if state == waiting.Live {
		receivers = max(0, receivers-1)
	}
	if state == waiting.Subscribing || state != r.state || receivers == 0 && r.info.Cluster { // there some may listen at another node
		receivers = -1
	}
	if r.staggered {
		topics.SetOthers(r.channel, receivers)
	}
	return receivers
}
