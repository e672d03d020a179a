package redishold

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// minTombstoneTTL is the minimal TTL of a tombstone.
const minTombstoneTTL = 10 * time.Second

// Release ends the claim c. If c.Indeterminate is set, an earlier Try of c may still be on its
// way to the server. In this case Release also ensures that the Try is not granted if it arrives
// within the TTL of the claim, or within ten seconds if the TTL is shorter.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	_, err := b.release(ctx, c)
	return err
}

// release does the same as Release. It also returns the number of other clients that received
// the message of the release, or -1 if that number is unknown.
func (b *Backend) release(ctx context.Context, c driver.Claim) (others int, err error) {
	info, err := b.ask(ctx)
	if err != nil {
		return -1, err
	}
	if c.Indeterminate {
		return -1, b.abandon(ctx, b.layout.Keys(c.Name), info, c)
	}
	r := b.newRelease(ctx, info, c)
	return r.answered(b.one(ctx, &r.sent.call))
}

// releaseAnswer reads the result of a release.
func (b *Backend) releaseAnswer(k layout.Keys, result Result) (ending, error) {
	if result.Err != nil {
		return ending{receivers: -1}, b.classifyHeld(k, result.Err)
	}
	return b.ended(b.scripts.Release, result.Value)
}

// ReleaseAll releases each claim in cs, in one round trip for each server. Indeterminate claims
// take separate calls.
func (b *Backend) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs, m := make([]error, len(cs)), b.newBatchBuf()
	for i := range cs {
		if !cs[i].Indeterminate {
			m.at = append(m.at, i)
		}
	}
	if len(m.at) < len(cs) {
		defer b.releaseIndeterminate(ctx, cs, errs).Wait()
	}
	if len(m.at) > 0 {
		b.releaseAll(ctx, cs, m, errs)
	}
	return errs
}

// releaseIndeterminate releases, in the background, the claims in cs that are indeterminate.
func (b *Backend) releaseIndeterminate(ctx context.Context, cs []driver.Claim, errs []error) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range cs {
		if cs[i].Indeterminate {
			all.Go(func() { errs[i] = b.Release(ctx, cs[i]) })
		}
	}
	return &all
}

// releaseAll releases the claim cs[i] for each i in m.at, and writes the error of that claim
// into errs[i].
func (b *Backend) releaseAll(ctx context.Context, cs []driver.Claim, m *batchBuf, errs []error) {
	info, err := b.ask(ctx)
	if err != nil {
		for _, i := range m.at {
			errs[i] = err
		}
		return
	}
	publish := b.publishWith(info)
	m.fill(1, 3+len(publish), func(buf kinds.Buffers, j int) wire.Call {
		c := cs[m.at[j]]
		return b.forms.of(c).Release(buf, b.layout.Keys(c.Name), c, publish)
	})
	var losses []loss
	var trims []trimming
	// Replicas need not acknowledge a release: if a failover loses it, the lock is free when its
	// lease ends.
	for j, result := range b.doAll(ctx, info, b.doRegistering, m, nil) {
		i := m.at[j]
		k := b.layout.Keys(cs[i].Name)
		end, err := b.releaseAnswer(k, result)
		if err == nil && !end.ended {
			err, losses = unexplained(), append(losses, loss{&cs[i], &errs[i]})
		}
		if len(end.readers) > 0 {
			trims = append(trims, trimming{k, end.readers, publish})
		}
		errs[i] = err
	}
	b.recycle(m)
	b.trim(trims...)
	b.explain(ctx, info, losses...)
}

// abandon ends a claim, and sets a tombstone for the owner of the claim. Until the tombstone is
// set, an earlier Try may still be granted. So an error of abandon leaves the outcome unknown.
func (b *Backend) abandon(ctx context.Context, k layout.Keys, info ServerInfo, c driver.Claim) error {
	kept := false
	if c.AtLeast > 0 { // the release comes first: while the lock is kept, a Try that arrives late finds the lock busy
		var err error
		if kept, err = b.end(ctx, k, info, b.forms.of(c).Release(kinds.Buffers{}, k, c, b.publishWith(info))); err != nil {
			return b.layout.Classify(k, err)
		}
		c.AtLeast = 0
	}
	released, err := b.end(ctx, k, info, b.forms.of(c).Abandon(k, c, b.publishWith(info), max(c.TTL, minTombstoneTTL)))
	switch {
	case err != nil:
		return b.noTombstone(ctx, k, info, c, err)
	case !released && !kept:
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "nothing was held"}
	}
	return nil
}

// noTombstone returns the error of an abandon that failed. A slot that is migrating refuses
// calls with several keys, but not calls with one key. If that was the reason, noTombstone
// releases the lock at once with a separate call. The caller must repeat Release to set the
// tombstone.
func (b *Backend) noTombstone(ctx context.Context, k layout.Keys, info ServerInfo, c driver.Claim, err error) error {
	switch wire.CodeOf(wire.ReplyText(err)) {
	case "": // err is not a reply of the server
		return err
	case "TRYAGAIN", "CROSSSLOT", "ASK":
		b.do(ctx, Call(b.forms.of(c).Release(kinds.Buffers{}, k, c, b.publishWith(info)))) // the result does not matter, because the caller repeats Release
	case "OOM", "MISCONF", "WRONGTYPE":
	default:
		return b.layout.Classify(k, err)
	}
	return fmt.Errorf("redis: %q is not yet certain to stay free: %w", k.Name, err)
}

// end runs the call of a script that ends a hold of the lock with the keys k, and reports whether
// the script ended one.
func (b *Backend) end(ctx context.Context, k layout.Keys, info ServerInfo, call wire.Call) (ended bool, err error) {
	value, err := b.call(ctx, call)
	if err != nil {
		return false, err
	}
	end, err := b.ended(call.Script, value)
	if len(end.readers) > 0 {
		b.trim(trimming{k, end.readers, b.publishWith(info)})
	}
	return end.ended, err
}

// ending is the reply of a script that ends a hold: a release, an abandon or a force.
type ending struct {
	ended     bool     // the script ended a hold
	receivers int      // how many clients received the message of the script; -1 if the server refused to publish
	readers   []string // the readers that remain, if the script has not trimmed their lock: the field and the hold count of each
}

// ended reads `value`, the reply of a script that ends a hold.
func (b *Backend) ended(script *Script, value any) (end ending, err error) {
	code, ok := value.(int64)
	if list, left := value.([]any); left {
		r := wire.Read(value)
		code = r.Number()
		for r.More() {
			end.readers = append(end.readers, r.Text())
		}
		ok = r.Done() && code != 0 && len(list) >= 3 && len(end.readers)%2 == 0
	}
	switch {
	case !ok || code < -1 || code > math.MaxInt32:
		return ending{}, wire.BadReply(script.Name(), value)
	case code == -1:
		b.warnCannotPublish("refused by " + script.Name())
		end.ended, end.receivers = true, -1
	default:
		end.ended, end.receivers = code > 0, int(max(code-1, 0))
	}
	return end, nil
}
