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
// the node of the lock. A client is a Locker. Several Lockers with the same Backend or the same
// Conn count as several clients, unless the Conn is not a ListenerCounter: then they count as one.
//
// If the Conn is not a Beginner, if the Backend has not asked the server for its version yet, or
// if the claim is indeterminate, StartRelease sends nothing, and `finish` sends the release.
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

	// The state of this client and of its Conn before the release.
	topic     waiting.Key   // has the channel of all waiters; zero if there is none
	staggered bool          // the waiting clients stagger their tries
	state     waiting.State // the state of that topic
	listeners int           // the result of Backend.listeners for that channel; undefined if there is none
}

// newRelease returns a release of c that is not sent yet.
func (b *Backend) newRelease(ctx context.Context, info ServerInfo, c driver.Claim) *release {
	r := b.releases.Get().(*release)
	f := b.forms.of(c)
	r.ctx, r.info, r.claim, r.keys = ctx, info, c, b.layout.Keys(c.Name)
	r.topic = waiting.Key{}
	if f.ReachesAll() && b.topics.Poll == 0 && !b.cannotListen.Load() {
		r.topic, r.staggered = waiting.Key{Channel: f.Channel(r.keys, c), Client: c.Client}, b.staggers(f)
		r.state, r.listeners = b.topics.Releasing(r.topic), b.listeners(info, r.topic.Channel)
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
	end, err := b.releaseAnswer(r.keys, result)
	others = -1
	if end.ended && !c.Quiet {
		others = r.others(end.receivers)
	}
	if len(end.readers) > 0 {
		var publish []string
		if !c.Quiet {
			publish = b.publishWith(info)
		}
		b.trim(trimming{r.keys, end.readers, publish})
	}
	r.ctx, r.answer = nil, nil
	if isAnswer(result) { // otherwise the Conn may still read r
		b.releases.Put(r)
	}
	if err != nil || end.ended {
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

// others returns how many clients other than this one received the message of the release, or -1
// if that is unknown. The parameter `receivers` is the number of connections that the server has
// counted, with the connection of this Conn. If waiting clients stagger their tries, others also
// records its result for the next tries of this client.
func (r *release) others(receivers int) int {
	if r.topic == (waiting.Key{}) || receivers < 0 {
		return -1
	}
	topics := &r.backend.topics
	state := topics.State(r.topic)
	if receivers > 0 { // otherwise the Conn did not receive the message, although it may have listeners
		receivers += r.besides()
	}
	if state == waiting.Live {
		receivers = max(0, receivers-1)
	}
	if state == waiting.Subscribing || state != r.state || receivers == 0 && r.info.Cluster { // in a cluster, others may listen at another node
		receivers = -1
	}
	if r.staggered {
		topics.SetOthers(r.topic, receivers)
	}
	return receivers
}

// besides returns how many listeners of this Conn the server has not counted, because it counts
// all of them as one.
func (r *release) besides() int {
	// A client that received the message may have got the lock since, and does not listen any more.
	listeners := max(r.listeners, r.backend.listeners(r.info, r.topic.Channel))
	return max(0, listeners-1)
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
