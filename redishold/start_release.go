package redishold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// StartRelease is Release in two steps: it returns when the call is on its way,
// so that a Try of the same name that is made after it arrives later, as far as
// the client can have it so. finish waits for the answer; it must be called, and
// only once.
//
// others is how many other clients received the message of the release, and may
// be waiting. It is -1 where that is not known: for fair and read-write locks, where
// waiters poll, for an indeterminate claim, and in a
// cluster where nobody received it at the node of the lock. Finish
// sends the release where the Conn is no Beginner, and before the server is known. Backends that share a Conn are one client.
func (b *Backend) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	info := b.server.known.Load()
	if b.beginner == nil || info == nil || c.Indeterminate {
		return b.releaseLater(ctx, c)
	}
	r, ok := b.releases.Get().(*release)
	if !ok {
		r = &release{backend: b}
		r.finish = r.wait
	}
	r.begin(ctx, *info, c)
	return r.finish
}

// releaseLater is a StartRelease whose call finish makes. It is a function of its own
// so that only its calls keep a copy of c.
func (b *Backend) releaseLater(ctx context.Context, c driver.Claim) (finish func() (int, error)) {
	return func() (int, error) { return b.releaseCounted(ctx, c) }
}

// release is one on its way.
type release struct {
	backend *Backend
	finish  func() (int, error) // wait, made once for all that r is used for

	ctx    context.Context
	claim  driver.Claim
	place  place
	info   ServerInfo
	form   form
	before listener
	sent   errand
	answer func() Result
}

func (r *release) begin(ctx context.Context, info ServerInfo, c driver.Claim) {
	b := r.backend
	r.ctx, r.info, r.claim = ctx, info, c
	r.place, r.form = b.layout.place(c.Name), b.form(c)
	r.before = b.listens(r.form, r.place, c)
	r.sent.call = r.form.release(r.sent.room(), r.place, c, b.publishWith(info))
	r.answer = b.beginner.Begin(ctx, &r.sent.call)
}

// wait waits for the answer.
func (r *release) wait() (others int, err error) {
	b := r.backend
	result := r.answer()
	receivers, err := b.released(r.ctx, r.place, r.info, r.claim, result)
	others = b.others(r.info, r.before, receivers)
	r.ctx, r.answer = nil, nil
	if isAnswer(result) { // else the Conn may still look at r
		b.releases.Put(r)
	}
	return others, err
}

// listener is this process before a release.
type listener struct {
	channel string // on which all waiters hear of it; "" if there is none
	turns   bool   // they take turns
	ears    ears
}

// listens returns whether this process listens for releases of c.
func (b *Backend) listens(f form, p place, c driver.Claim) (l listener) {
	if !f.tellsAll() || b.topics.poll > 0 || b.deaf.Load() {
		return l
	}
	l.channel, l.turns = f.channel(p, c), b.turns(f)
	l.ears = b.topics.ears(l.channel)
	return l
}

// others is receivers without this process, which was before before. The channel's
// topic learns of it.
func (b *Backend) others(info ServerInfo, before listener, receivers int) int {
	if before.channel == "" || receivers < 0 {
		return -1
	}
	switch after := b.topics.ears(before.channel); {
	case after != before.ears || after == earsUnknown:
		receivers = -1
	case after == earsOpen:
		receivers = max(0, receivers-1)
	}
	if receivers == 0 && info.Cluster {
		receivers = -1 // some may listen at another node
	}
	if before.turns {
		b.topics.counted(before.channel, receivers)
	}
	return receivers
}
