package redishold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// StartRelease is Release in two steps. The first step, StartRelease itself, queues the request.
// A later Try of the same name often shares a pipeline with the release, and then follows it. But
// it may also arrive first: over another connection, or in a cluster. The second step is the
// function `finish`, which waits for the answer. The caller must call `finish` exactly once.
//
// The result `others` is the number of other clients that got the message of the release and may
// be waiting. It is -1 if this number is unknown: for fair and read-write locks, if waiters
// poll, for an indeterminate or a quiet claim, and in a cluster if no client got the message at
// the node of the lock. Several Backends with the same Conn count as one client. If the Conn is
// not a Beginner, if the Backend has not asked the server for its version yet, or if the claim
// is indeterminate, StartRelease sends nothing, and `finish` sends the release.
func (b *Backend) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	info := b.server.known.Load()
	if b.beginner == nil || info == nil || c.Indeterminate {
		return b.releaseLater(ctx, c)
	}
	r := b.newRelease(ctx, *info, c)
	r.answer = b.beginner.Begin(ctx, &r.sent.call)
	return r.finish
}

// releaseLater returns the result of StartRelease if `finish` must send the release. It is a
// function of its own, so that c is copied to the heap only in this case.
func (b *Backend) releaseLater(ctx context.Context, c driver.Claim) (finish func() (int, error)) {
	return func() (int, error) { return b.release(ctx, c) }
}

// release is the state of one release, from newRelease until its answer was read.
type release struct {
	backend *Backend
	finish  func() (int, error) // made once, so that a release does not allocate it

	ctx    context.Context
	claim  driver.Claim
	keys   layout.Keys
	info   ServerInfo
	sent   callBuf
	answer func() Result

	// The state of this process before the release.
	channel   string        // the channel of all waiters; "" if there is none
	staggered bool          // the waiting processes stagger their tries
	state     waiting.State // the state of that channel
}

// newRelease returns a release of c that is not sent yet.
func (b *Backend) newRelease(ctx context.Context, info ServerInfo, c driver.Claim) *release {
	r := b.releases.Get().(*release)
	f := b.forms.of(c)
	r.ctx, r.info, r.claim, r.keys = ctx, info, c, b.layout.Keys(c.Name)
	r.channel = ""
	if f.ReachesAll() && b.topics.Poll == 0 && !b.cannotListen.Load() {
		r.channel, r.staggered = f.Channel(r.keys, c), b.staggers(f)
		r.state = b.topics.State(r.channel)
	}
	publish := b.publishWith(info)
	if c.Quiet {
		publish = nil
	}
	r.sent.call = Call(f.Release(r.sent.buffers(), r.keys, c, publish))
	return r
}

// answered reads the result of the release, and returns r to its pool.
func (r *release) answered(result Result) (others int, err error) {
	b, ctx, c, info := r.backend, r.ctx, r.claim, r.info
	released, receivers, err := b.releaseAnswer(r.keys, result)
	others = -1
	if released && !c.Quiet {
		others = r.others(receivers)
	}
	r.ctx, r.answer = nil, nil
	if isAnswer(result) { // otherwise the Conn may still read r
		b.releases.Put(r)
	}
	if err != nil || released {
		return others, err
	}
	return others, b.lostBefore(ctx, info, c)
}

// lostBefore returns the error for a claim that was already lost when it was released.
func (b *Backend) lostBefore(ctx context.Context, info ServerInfo, c driver.Claim) (err error) {
	err = unexplained()
	b.explain(ctx, info, loss{&c, &err})
	return err
}

// others returns how many clients other than this process received the message of the release,
// or -1 if that is unknown. The parameter `receivers` is the number that the server has counted,
// with this process. If waiting processes stagger their tries, others also records its result
// for the next tries of this process.
func (r *release) others(receivers int) int {
	if r.channel == "" || receivers < 0 {
		return -1
	}
	topics := &r.backend.topics
	state := topics.State(r.channel)
	if state == waiting.Live {
		receivers = max(0, receivers-1)
	}
	if state == waiting.Subscribing || state != r.state || receivers == 0 && r.info.Cluster { // in a cluster, others may listen at another node
		receivers = -1
	}
	if r.staggered {
		topics.SetOthers(r.channel, receivers)
	}
	return receivers
}

// ReleaseNow does the same as StartRelease and `finish`, but in one step.
func (b *Backend) ReleaseNow(ctx context.Context, c driver.Claim) (others int, err error) {
	return b.release(ctx, c)
}

// Wake publishes the message that a release of c publishes, but does not release c.
func (b *Backend) Wake(ctx context.Context, c driver.Claim) error {
	info, err := b.ask(ctx)
	if err != nil {
		return err
	}
	k := b.layout.Keys(c.Name)
	args := append([]string{b.forms.of(c).Channel(k, c), "0"}, b.publishWith(info)...)
	// In a cluster, only the node of the lock accepts a message on the sharded channel.
	_, err = b.call(ctx, wire.Call{Script: b.library.Get("publish"), Keys: []string{k.Lock}, Args: args})
	return err
}
