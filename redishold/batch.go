package redishold

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// togetherMost bounds how many locks share one call: while a script runs, the
// server serves nobody else. Fifty locks take it 0.2 ms, a single one 0.01 ms.
const maxBatch = 50

// bundle returns the script that does for many locks what c's does for one, "" if there
// is none. Its arguments are the first ones of each call, as many as are its own, and
// then those that all have in common. It answers for each lock what the script for one
// would, or {-3, words}.
func (b *Backend) batchScript(c *Call) (script string, own int) {
	switch c.Script {
	case b.scripts.Acquire:
		if len(c.Args) == kinds.AcquireArgs { // it does not have to tell others
			return "acquire_all", 1
		}
	case b.scripts.Renew:
		return "renew_all", 1
	case b.scripts.Release:
		return "release_all", 2
	}
	return "", 0
}

// doAll runs calls with do, in one round trip to each server, and returns the
// answers. register are the claims whose clients are registered on the way.
func (b *Backend) doAll(ctx context.Context, info ServerInfo, do doer, calls []Call, register ...driver.Claim) []Result {
	keys, args := 0, 0
	for i := range calls {
		keys, args = keys+len(calls[i].Keys), args+len(calls[i].Args)
	}
	groups, to := b.groups(info, calls), kinds.Buffers{Keys: make([]string, 0, keys), Args: make([]string, 0, args)}
	combined := make([]Call, len(groups), len(groups)+1) // a registration may come along
	for i, g := range groups {
		combined[i] = b.combine(&to, calls, g)
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

// doer is doReplicated, or a function like it.
type doer func(context.Context, ServerInfo, []Call, ...driver.Claim) []Result

// groups says which calls become one: those of plain locks with the same arguments,
// where all of them are on one server and none waits for replicas.
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

// alike says that a script of several locks can serve both calls.
func (b *Backend) combinable(x, y *Call) bool {
	_, own := b.batchScript(x)
	return x.Script == y.Script && slices.Equal(x.Args[own:], y.Args[own:])
}

// together returns one call for a group of calls, which lies in to.
func (b *Backend) combine(to *kinds.Buffers, calls []Call, group []int) Call {
	first := &calls[group[0]]
	if len(group) == 1 {
		return *first
	}
	script, own := b.batchScript(first)
	call := Call{Script: b.library.Get(script), Keys: to.Keys, Args: to.Args}
	for _, i := range group {
		call.Keys = append(call.Keys, calls[i].Keys...)
		call.Args = append(call.Args, calls[i].Args[:own]...)
	}
	call.Args = append(call.Args, first.Args[own:]...)
	return commit(to, call)
}

// refusesAKey reports that the server did not begin r's script, because the user
// has no access to one of its keys. It may have access to the others.
func refusesAKey(r Result) bool {
	text := wire.ReplyText(r.Err)
	return wire.CodeOf(text) == "NOPERM" && strings.Contains(text, "key")
}

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

// codeRefused begins the answer for a lock of which the server refused something.
const codeRefused = -3

// answer returns v, which a script of several locks answered for one of them, as
// if that had been alone.
func single(v any) Result {
	if list, _ := v.([]any); len(list) == 2 && list[0] == any(int64(codeRefused)) {
		if words, ok := list[1].(string); ok {
			return Result{Err: &ReplyError{Text: strings.TrimSpace(words)}}
		}
	}
	return Result{Value: v}
}
