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

// tooFew is the error of a write that too few replicas have acknowledged.
type tooFew struct{ words string }

func (e *tooFew) Error() string { return "redis: " + e.words }

// shortOf returns a tooFew if the script of r was executed, but too few replicas acknowledged
// it. If the server itself replies NOREPLICAS, because of min-replicas-to-write, the script
// was not executed, and shortOf returns nil.
func shortOf(r Result) *tooFew {
	words, short := strings.CutPrefix(wire.ReplyText(r.Err), "NOREPLICAS ")
	if r.Value == nil || !short {
		return nil
	}
	return &tooFew{words}
}

// doReplicated does the same as doRegistering, but replicas must acknowledge the calls if
// Options.Replicas requires that. With AllReplicas, doReplicated does not send a call to a
// server without replicas. The error in the Result of such a call wraps a *tooFew.
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

// countReplicas asks the server how many replicas are connected. On one server it asks once. In
// a cluster it asks once for each call, because the calls may go to different nodes. It uses at
// most half of the time that ctx leaves. So if one node of a cluster does not respond, time
// remains for the calls to the other nodes.
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

// connected returns the number of replicas in r, a result of count_replicas.lua. It returns an
// error if the write that needs the replicas must not be sent, for example because no replica is
// connected.
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

// proveReplicas checks that the user has the permission for WAIT and, with AllReplicas, for
// INFO. The number of replicas does not matter yet.
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

// refusesWait returns the error for a server that refuses WAIT. The parameter `words` is the
// error reply.
func refusesWait(words string) error {
	const does = "redis refuses WAIT, without which replicas cannot acknowledge a lock (Options.Replicas)"
	if wire.MeaningOf(words) == wire.MeansNoCommand {
		return wire.Lacking(does, words)
	}
	return wire.Ungranted(does, words, "+wait")
}

// refusesInfo returns `err`, the error of a call of proveReplicas. If `counting` is true, the
// call ran count_replicas.lua. If the server refused the INFO in that script, the returned
// error also names the missing permission.
func refusesInfo(counting bool, err error) error {
	words := wire.ReplyText(err)
	if !counting || !wire.Means(err, wire.MeansNoRightInside) && !strings.Contains(words, "info") {
		return err
	}
	return wire.Ungranted("redis refuses INFO, which has the number of replicas (AllReplicas)", words, "+info")
}

// undoGrant releases a claim whose grant too few replicas acknowledged. It returns the error for
// the try t. This error is never nil. The caller may try again, because the reason may be a
// failover that is in progress.
func (b *Backend) undoGrant(ctx context.Context, t *try, short *tooFew) error {
	_, err := b.end(ctx, t.keys, t.info, b.forms.of(t.claim).Release(kinds.Buffers{}, t.keys, t.claim, b.publishWith(t.info)))
	if err != nil {
		// The claim may be held, so the error must leave the outcome unknown.
		return fmt.Errorf("%w; the lock could not be released again: %v", short, err) //nolint:errorlint // hidden on purpose
	}
	return fmt.Errorf("%w; the lock was released again: %w", short, driver.ErrNotExecuted)
}

// unreplicated returns the error of a hold whose renewal too few replicas acknowledged. After a
// failover to a replica without the renewal, the server could grant the lock to another client.
// So the hold ends at once, and not only at the end of its lease.
func unreplicated(few *tooFew) *driver.GoneError {
	return &driver.GoneError{Reason: driver.ReasonUnreachable, Detail: "the renewal was not replicated: " + few.words}
}

// renewFirst renews cs on one server whose replicas must acknowledge. A WAIT that fails lasts
// until its timeout. So renewFirst first renews one claim alone. If too few replicas acknowledge
// this renewal, all claims get its error, and the other renewals are not sent.
func (b *Backend) renewFirst(ctx context.Context, info ServerInfo, cs []driver.Claim) []driver.Renewal {
	renewals := b.renewChunk(ctx, info, cs[:1])
	if err := renewals[0].Err; retry.Gone(err) && retry.ReasonOf(err) == driver.ReasonUnreachable {
		return slices.Repeat(renewals, len(cs))
	}
	return append(renewals, b.renewChunk(ctx, info, cs[1:])...)
}
