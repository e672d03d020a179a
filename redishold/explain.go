package redishold

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	explainMost  = 64          // how many losses one call looks into
	explainLimit = time.Second // how long that may take
)

// forcedMark is what the mark of a broken owner begins with; the reason follows.
const forcedMark = "forced: "

// unexplained is a loss of which no more is known: the server cannot tell a key
// that expired from one that was deleted.
func unexplained() *driver.GoneError {
	return &driver.GoneError{Reason: driver.Deleted, Detail: "deleted or expired on the server"}
}

// lost says why a claim is gone that an earlier call had marked.
func lost(mark string) *driver.GoneError {
	if why, ok := strings.CutPrefix(mark, forcedMark); ok {
		return &driver.GoneError{Reason: driver.Forced, Detail: "broken on purpose: " + printable(why)}
	}
	return &driver.GoneError{Reason: driver.Deleted, Detail: "given up before it was granted"}
}

// classifyHeld is classify for a claim that was held: where the key has become something
// else, the lock is gone.
func (b *Backend) classifyHeld(p place, err error) error {
	err = b.classify(p, err)
	if errors.Is(err, driver.ErrMismatch) {
		return &driver.GoneError{Reason: driver.Deleted, Detail: "overwritten: " + err.Error()}
	}
	return err
}

// explainLost puts the reason into the errors of the claims of cs that are lost, for
// as many as is reasonable. They are gone with or without it.
func (b *Backend) explainLost(ctx context.Context, info ServerInfo, cs []driver.Claim, lost []int, err func(i int) *error) {
	lost = lost[:min(len(lost), explainMost)]
	if len(lost) == 0 {
		return
	}
	claims := make([]driver.Claim, len(lost))
	for j, i := range lost {
		claims[j] = cs[i]
	}
	for j, reason := range b.explain(ctx, info, claims) {
		if reason != nil {
			*err(lost[j]) = reason
		}
	}
}

// explain looks up why cs are gone; nil where it cannot be learnt.
func (b *Backend) explain(ctx context.Context, info ServerInfo, cs []driver.Claim) []*driver.GoneError {
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()

	calls := make([]Call, len(cs))
	for i, c := range cs {
		calls[i] = b.oneKey().explain(b.layout.place(c.Name), c)
	}
	reasons := make([]*driver.GoneError, len(cs))
	var missing []int
	var shown []explainReply
	for i, result := range b.do(ctx, calls...) {
		reply, err := parseExplain(result.Value)
		switch {
		case result.Err != nil || err != nil:
			b.log.Debug("redis: look up why a lock is gone", "lock", cs[i].Name, "error", errors.Join(result.Err, err))
		case reply.mark != "":
			reasons[i] = lost(reply.mark)
		case reply.holder != "":
			reasons[i] = &driver.GoneError{Reason: driver.NotOwner, Detail: "now held by " + b.person(ctx, reply.holder)}
		case !reply.exists:
			missing, shown = append(missing, i), append(shown, reply)
		}
	}
	if len(missing) > 0 {
		b.clients.forget() // who we are may be gone as well
		b.stems.forget()
		why := b.whyMissing(ctx, info)
		for j, i := range missing {
			reasons[i] = why(shown[j])
		}
	}
	return reasons
}

// whyMissing asks the server once what may have taken keys away, and returns a
// function that says it of one lock. In a cluster the answer would be that of
// any node, so there it is not asked.
func (b *Backend) whyMissing(ctx context.Context, info ServerInfo) func(explainReply) *driver.GoneError {
	var evicted, restarted bool
	if !info.Cluster {
		if now, err := b.conn.Server(ctx); err == nil {
			before := b.server.look(now)
			restarted = before.RunID != "" && now.RunID != "" && before.RunID != now.RunID
			evicted = !restarted && now.evicts() && now.EvictedKeys > before.EvictedKeys
		}
	}
	return func(reply explainReply) *driver.GoneError {
		switch {
		case evicted:
			return &driver.GoneError{Reason: driver.Evicted, Detail: "evicted by the server to free memory"}
		case restarted:
			return &driver.GoneError{Reason: driver.Deleted, Detail: "the server lost its data (restarted or replaced)"}
		case !reply.counter:
			return &driver.GoneError{Reason: driver.Deleted, Detail: "the server lost its data (flushed or restarted empty)"}
		default:
			return unexplained()
		}
	}
}
