package redishold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// AllReplicas asks for every replica that the server has, see Options.Replicas.
const AllReplicas = -1

// tooFew says that fewer replicas have a write than were asked for.
type tooFew struct{ words string }

func (e *tooFew) Error() string { return "redis: " + e.words }

// shortOf returns a tooFew if r's script did run, but not on enough replicas. A
// server's own NOREPLICAS, by min-replicas-to-write, comes instead of a run.
func shortOf(r Result) *tooFew {
	if r.Value == nil || r.Err == nil {
		return nil
	}
	var reply *ReplyError
	if !errors.As(r.Err, &reply) {
		return nil
	}
	words, ok := strings.CutPrefix(reply.Text, "NOREPLICAS ")
	if !ok {
		return nil
	}
	return &tooFew{words}
}

// doReplicated is doRegistering for calls that have to reach the replicas, as
// far as the options say so. A call for which no replica is connected is not
// sent; its error is a tooFew.
func (b *Backend) doReplicated(ctx context.Context, info ServerInfo, calls []Call, cs ...driver.Claim) []Result {
	if b.options.Replicas == 0 || len(calls) == 0 {
		return b.doRegistering(ctx, info.Cluster, calls, cs...)
	}
	results := make([]Result, len(calls))
	var send []Call
	var at []int
	for i, want := range b.replicas(ctx, info, calls) {
		if want.Err != nil {
			results[i] = want
			continue
		}
		call := calls[i]
		call.Replicas = int(want.Value.(int64))
		send, at = append(send, call), append(at, i)
	}
	if len(send) > 0 {
		for j, r := range b.doRegistering(ctx, info.Cluster, send, cs...) {
			results[at[j]] = r
		}
	}
	return results
}

// replicas returns for each call how many replicas must acknowledge it, at least
// 1, or an error: then it must not be sent.
func (b *Backend) replicas(ctx context.Context, info ServerInfo, calls []Call) []Result {
	wants := make([]Result, len(calls))
	if n := b.options.Replicas; n > 0 {
		for i := range wants {
			wants[i].Value = int64(n)
		}
		return wants
	}
	questions := make([]Call, len(calls))
	for i, call := range calls {
		questions[i] = Call{Script: b.scripts.replicas, Keys: call.Keys[:1]}
	}
	if !info.Cluster {
		questions = questions[:1] // all calls go to one server
	}
	answers := b.askReplicas(ctx, questions)
	for i := range wants {
		wants[i] = connected(answers[min(i, len(questions)-1)])
	}
	return wants
}

// askReplicas leaves time for the calls that the questions are about: a node of
// a cluster that does not answer must not use up that of the others.
func (b *Backend) askReplicas(ctx context.Context, questions []Call) []Result {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	return b.do(ctx, questions...)
}

// connected reads the answer of replicas.lua.
func connected(r Result) Result {
	n, ok := r.Value.(int64)
	switch {
	case r.Err != nil:
		r.Err = notTried(r.Err)
	case !ok || n < 0:
		r.Err = notTried(badReply("replicas", r.Value))
	case n == 0:
		r.Err = notTried(&tooFew{"0 replicas are connected, and all of them, at least 1, must acknowledge"})
	}
	return r
}

// proveReplicas proves that the user may ask for acknowledgements at all. How
// many there are does not matter yet.
func (b *Backend) proveReplicas(ctx context.Context, p place) error {
	if b.options.Replicas == 0 || b.server.passed(b.scripts.replicas) {
		return nil
	}
	question := Call{Script: b.scripts.client, Keys: []string{p.lock + ":holdfast-probe"}, Replicas: 1}
	if b.options.Replicas == AllReplicas {
		question.Script = b.scripts.replicas
	}
	result := b.do(ctx, question)[0]
	if short := shortOf(result); short != nil {
		words, failed := strings.CutPrefix(short.words, "WAIT failed: ")
		if failed {
			return refusesWait(words)
		}
		result.Err = nil
	}
	if result.Err != nil {
		return refusesInfo(question.Script == b.scripts.replicas, notTried(b.classify(p, result.Err)))
	}
	b.server.pass(b.scripts.replicas)
	return nil
}

// refusesWait is the error for a server that answers WAIT with words.
func refusesWait(words string) error {
	e := ungranted("redis refuses WAIT, without which replicas cannot acknowledge a lock (Options.Replicas)", &ReplyError{Text: words}, "+wait")
	if isUnknownCommand(words) {
		e.advice = "nothing was written; this server or proxy cannot be asked for replicas"
	}
	return e
}

// refusesInfo names the right that is missing if replicas.lua was what asked.
func refusesInfo(asked bool, err error) error {
	var reply *ReplyError
	if !asked || !errors.As(err, &reply) ||
		meaningOf(reply.Text) != meansNoRightInside && !strings.Contains(reply.Text, "info") {
		return err
	}
	return ungranted("redis refuses INFO, which tells how many replicas there are (AllReplicas)", reply, "+info")
}

// giveBack releases a claim that was granted on too few replicas, and returns
// the error of that try. Trying again may help: a fail-over may be under way.
func (b *Backend) giveBack(ctx context.Context, t *try, short *tooFew) error {
	call := b.form(t.claim).release(room{}, t.place, t.claim, t.info.publishWith())
	value, err := b.call(ctx, call)
	if err == nil {
		_, _, err = b.ended(call.Script, value)
	}
	if err != nil {
		// Whatever it was, the claim may be held: that must stay unknown.
		return fmt.Errorf("%w; the lock could not be released again: %v", short, err) //nolint:errorlint // hidden on purpose
	}
	return fmt.Errorf("%w; the lock was released again: %w", short, driver.ErrNotExecuted)
}

// unreplicated is the end of a hold whose renewal too few replicas acknowledged.
// After a fail-over to one of the others the server would have given it away, so
// it ends at once, and is not renewed until the deadline.
func unreplicated(few *tooFew) *driver.GoneError {
	return &driver.GoneError{Reason: driver.Unreachable, Detail: "the renewal was not replicated: " + few.words}
}

// isUnreplicated reports that err is unreplicated's.
func isUnreplicated(err error) bool {
	var gone *driver.GoneError
	return errors.As(err, &gone) && gone.Reason == driver.Unreachable
}

// renewFirst renews cs on one server where replicas must acknowledge. Every WAIT
// that fails takes its time, so the first claim speaks for all: where too few
// replicas have it, they have none.
func (b *Backend) renewFirst(ctx context.Context, info ServerInfo, cs []driver.Claim) []driver.Renewal {
	renewals := b.renewChunk(ctx, info, cs[:1])
	if isUnreplicated(renewals[0].Err) {
		for range cs[1:] {
			renewals = append(renewals, renewals[0])
		}
		return renewals
	}
	return append(renewals, b.renewChunk(ctx, info, cs[1:])...)
}
