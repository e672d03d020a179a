package redishold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// AllReplicas means every replica of the server, see Options.Replicas.
const AllReplicas = -1

// tooFew says that fewer replicas have a write than were asked for.
type tooFew struct{ words string }

func (e *tooFew) Error() string { return "redis: " + e.words }

// shortOf returns a tooFew if r's script did run, but not on enough replicas. A
// server's own NOREPLICAS, by min-replicas-to-write, comes instead of a run.
func shortOf(r Result) *tooFew {
	words, short := strings.CutPrefix(wire.ReplyText(r.Err), "NOREPLICAS ")
	if r.Value == nil || !short {
		return nil
	}
	return &tooFew{words}
}

// doReplicated is doRegistering for calls that have to reach the replicas, as
// far as the options say so. A call for which no replica is connected is not
// sent; its error is a tooFew.
func (b *Backend) doReplicated(ctx context.Context, info ServerInfo, calls []Call, cs ...driver.Claim) []Result {
	if n := b.options.Replicas; n >= 0 {
		for i := range calls {
			calls[i].Replicas = n
		}
		return b.doRegistering(ctx, info, calls, cs...)
	}
	results, answers := make([]Result, len(calls)), b.countReplicas(ctx, info, calls)
	var send []Call
	var at []int
	for i, call := range calls {
		n, err := connected(answers[min(i, len(answers)-1)])
		if err != nil {
			results[i].Err = err
			continue
		}
		call.Replicas = n
		send, at = append(send, call), append(at, i)
	}
	if len(send) > 0 {
		wire.Scatter(results, at, b.doRegistering(ctx, info, send, cs...))
	}
	return results
}

// countReplicas asks how many replicas are connected, for each of calls, or once where
// all go to one server. It leaves time for the calls themselves: a node of a cluster
// that does not answer must not use up that of the others.
func (b *Backend) countReplicas(ctx context.Context, info ServerInfo, calls []Call) []Result {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	if !info.Cluster {
		calls = calls[:min(1, len(calls))]
	}
	questions := make([]Call, len(calls))
	for i, call := range calls {
		questions[i] = Call{Script: b.library.Get("count_replicas"), Keys: call.Keys[:1]}
	}
	return b.do(ctx, questions...)
}

// connected reads the answer of count_replicas.lua. Without any replica the call must not
// be sent.
func connected(r Result) (int, error) {
	n, ok := r.Value.(int64)
	switch {
	case r.Err != nil:
		return 0, wire.NotTried(r.Err)
	case !ok || n < 0:
		return 0, wire.NotTried(wire.BadReply("count_replicas", r.Value))
	case n == 0:
		return 0, wire.NotTried(&tooFew{"0 replicas are connected, and all of them, at least 1, must acknowledge"})
	}
	return int(n), nil
}

// proveReplicas proves that the user may ask for acknowledgements at all. How
// many there are does not matter yet.
func (b *Backend) proveReplicas(ctx context.Context, k layout.Keys) error {
	if b.options.Replicas == 0 || b.server.passed("replicas") {
		return nil
	}
	question := Call{Script: b.library.Get("client"), Keys: []string{k.Lock + ":holdfast-probe"}, Replicas: 1}
	if b.options.Replicas == AllReplicas {
		question.Script = b.library.Get("count_replicas")
	}
	result := b.do(ctx, question)[0]
	if short := shortOf(result); short != nil {
		if words, failed := strings.CutPrefix(short.words, "WAIT failed: "); failed {
			return refusesWait(words)
		}
		result.Err = nil
	}
	if result.Err != nil {
		return refusesInfo(question.Script == b.library.Get("count_replicas"), wire.NotTried(b.layout.Classify(k, result.Err)))
	}
	b.server.pass("replicas")
	return nil
}

// refusesWait is the error for a server that answers WAIT with words.
func refusesWait(words string) error {
	const does = "redis refuses WAIT, without which replicas cannot acknowledge a lock (Options.Replicas)"
	if wire.MeaningOf(words) == wire.MeansNoCommand {
		return wire.Lacking(does, words)
	}
	return wire.Ungranted(does, words, "+wait")
}

// refusesInfo names the right that is missing if count_replicas.lua was what asked.
func refusesInfo(asked bool, err error) error {
	words := wire.ReplyText(err)
	if !asked || !wire.Means(err, wire.MeansNoRightInside) && !strings.Contains(words, "info") {
		return err
	}
	return wire.Ungranted("redis refuses INFO, which tells how many replicas there are (AllReplicas)", words, "+info")
}

// giveBack releases a claim that was granted on too few replicas, and returns
// the error of that try. Trying again may help: a failover may be under way.
func (b *Backend) undoGrant(ctx context.Context, t *try, short *tooFew) error {
	_, err := b.end(ctx, b.forms.of(t.claim).Release(kinds.Buffers{}, t.keys, t.claim, b.publishWith(t.info)))
	if err != nil {
		// Whatever it was, the claim may be held: that must stay unknown.
		return fmt.Errorf("%w; the lock could not be released again: %v", short, err) //nolint:errorlint // hidden on purpose
	}
	return fmt.Errorf("%w; the lock was released again: %w", short, driver.ErrNotExecuted)
}

// unreplicated is the end of a hold whose renewal too few replicas acknowledged.
// After a failover to one of the others the server would have given the lock to another client, so
// it ends at once, and is not renewed until the deadline.
func unreplicated(few *tooFew) *driver.GoneError {
	return &driver.GoneError{Reason: driver.ReasonUnreachable, Detail: "the renewal was not replicated: " + few.words}
}

// renewFirst renews cs on one server where replicas must acknowledge. Every WAIT
// that fails takes its time, so the first claim speaks for all: where too few
// replicas have it, they have none.
func (b *Backend) renewFirst(ctx context.Context, info ServerInfo, cs []driver.Claim) []driver.Renewal {
	renewals := b.renewChunk(ctx, info, cs[:1])
	if err := renewals[0].Err; retry.Gone(err) && retry.ReasonOf(err) == driver.ReasonUnreachable {
		return slices.Repeat(renewals, len(cs))
	}
	return append(renewals, b.renewChunk(ctx, info, cs[1:])...)
}
