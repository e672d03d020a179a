package redishold

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// maxBatch is the maximal number of locks in one call, because the server runs nothing else
// during a script. A script for fifty locks takes 0.2 ms, a script for one 0.01 ms.
const maxBatch = 50

// batchScript returns the script that does for many locks what the script of c does for one, or
// "" if there is none. The result `own` is the number of arguments that each call has of its
// own. They come first, and the arguments that all calls have in common follow. For each lock,
// the reply has the reply of the script for one, or {-3, error}.
func (b *Backend) batchScript(c *Call) (script string, own int) {
	switch c.Script {
	case b.scripts.Acquire:
		if len(c.Args) == kinds.AcquireArgs { // without a message that the lock is taken
			return "acquire_all", 1
		}
	case b.scripts.Renew:
		return "renew_all", 1
	case b.scripts.Release:
		return "release_all", 2
	}
	return "", 0
}

// doAll runs calls with do, in one round trip to each server, and returns their results. The
// clients of the claims in register are registered in the same round trip.
func (b *Backend) doAll(ctx context.Context, info ServerInfo, do doer, calls []Call, register ...driver.Claim) []Result {
	keys, args := 0, 0
	for i := range calls {
		keys, args = keys+len(calls[i].Keys), args+len(calls[i].Args)
	}
	groups, buf := b.groups(info, calls), kinds.Buffers{Keys: make([]string, 0, keys), Args: make([]string, 0, args)}
	combined := make([]Call, len(groups), len(groups)+1) // with room for a registration
	for i, g := range groups {
		combined[i] = b.combine(&buf, calls, g)
	}
	results := make([]Result, len(calls))
	var retry []int
	for i, r := range do(ctx, info, combined, register...) {
		if len(groups[i]) > 1 && refusesAKey(r) {
			retry = append(retry, groups[i]...)
			continue
		}
		distribute(results, groups[i], r)
	}
	if len(retry) > 0 {
		wire.Scatter(results, retry, do(ctx, info, wire.Pick(calls, retry)))
	}
	return results
}

// doer runs calls, and registers the clients of the claims: doReplicated or doRegistering.
type doer func(context.Context, ServerInfo, []Call, ...driver.Claim) []Result

// groups returns the indices of the calls that become one call: those of plain locks with the
// same common arguments. In a cluster, or with replicas, each call is a group.
func (b *Backend) groups(info ServerInfo, calls []Call) [][]int {
	groups := make([][]int, 0, len(calls)/maxBatch+1)
	plain, other := make([]int, 0, len(calls)), []int(nil)
	for i := range calls {
		if script, _ := b.batchScript(&calls[i]); script != "" && !info.Cluster && b.options.Replicas == 0 {
			plain = append(plain, i)
		} else {
			other = append(other, i)
		}
	}
	for from, to := 0, 1; from < len(plain); to++ {
		if to == len(plain) || to-from == maxBatch || !b.combinable(&calls[plain[from]], &calls[plain[to]]) {
			groups = append(groups, plain[from:to])
			from = to
		}
	}
	return slices.AppendSeq(groups, slices.Chunk(other, 1))
}

// combinable reports whether both calls can be in one call of a script for several locks.
func (b *Backend) combinable(x, y *Call) bool {
	_, own := b.batchScript(x)
	return x.Script == y.Script && slices.Equal(x.Args[own:], y.Args[own:])
}

// combine returns one call for a group of calls. It uses the slices of buf.
func (b *Backend) combine(buf *kinds.Buffers, calls []Call, group []int) Call {
	first := &calls[group[0]]
	if len(group) == 1 {
		return *first
	}
	script, own := b.batchScript(first)
	call := Call{Script: b.library.Get(script), Keys: buf.Keys, Args: buf.Args}
	for _, i := range group {
		call.Keys = append(call.Keys, calls[i].Keys...)
		call.Args = append(call.Args, calls[i].Args[:own]...)
	}
	call.Args = append(call.Args, first.Args[own:]...)
	return commit(buf, call)
}

// refusesAKey reports whether the server did not begin the script of r because the user has
// no access to one of its keys. The user may have access to the others.
func refusesAKey(r Result) bool {
	text := wire.ReplyText(r.Err)
	return wire.CodeOf(text) == "NOPERM" && strings.Contains(text, "key")
}

// distribute writes r, the result of the call for a group, into the results of its calls.
func distribute(results []Result, group []int, r Result) {
	if len(group) == 1 {
		results[group[0]] = r
		return
	}
	list, _ := r.Value.([]any)
	if r.Err == nil && len(list) != len(group) {
		r.Err = wire.BadReply("of several locks", r.Value)
	}
	for j, i := range group {
		if r.Err != nil {
			results[i].Err = r.Err
			continue
		}
		results[i] = single(list[j])
	}
}

// codeRefused is the first element of a reply for a lock for which the server refused a
// command.
const codeRefused = -3

// single returns the Result for one lock from its element v in the reply for several locks.
func single(v any) Result {
	if list, _ := v.([]any); len(list) == 2 && list[0] == any(int64(codeRefused)) {
		if words, ok := list[1].(string); ok {
			return Result{Err: &ReplyError{Text: strings.TrimSpace(words)}}
		}
	}
	return Result{Value: v}
}
