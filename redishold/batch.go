package redishold

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// togetherMost bounds how many locks share one call: while a script runs, the
// server serves nobody else. Fifty locks take it 0.2 ms, a single one 0.01 ms.
const togetherMost = 50

// order is what is asked for many claims.
type order struct {
	// alone returns the call for claim i by itself.
	alone func(to room, i int) Call

	// together returns one call for the claims at the given places. Its script
	// answers for each of them what that of alone would, or {-3, words}.
	together func(to room, at []int) Call

	// apart reports that claim i, of a plain lock, may not travel together with
	// others; nil: all may.
	apart func(i int) bool

	// unreplicated says that replicas need not acknowledge it, whatever the options ask.
	unreplicated bool

	// room returns how many keys and arguments a call for n claims has, at most but
	// for rare kinds.
	room func(n int) (keys, args int)
}

// doAll runs o for the claims of cs at the given places, in one round trip to each
// server, and returns the answers, each at its claim's place. register are the
// claims whose clients are registered on the way.
func (b *Backend) doAll(
	ctx context.Context, info ServerInfo, cs []driver.Claim, at []int, o order, register ...driver.Claim,
) []Result {
	results := make([]Result, len(cs))
	groups := b.groups(info, cs, at, o)
	var again [][]int
	do := b.doReplicated
	if o.unreplicated {
		do = func(ctx context.Context, info ServerInfo, calls []Call, cs ...driver.Claim) []Result {
			return b.doRegistering(ctx, info.Cluster, calls, cs...)
		}
	}
	for i, r := range do(ctx, info, callsOf(o, groups), register...) {
		if len(groups[i]) > 1 && refusesAKey(r) {
			again = append(again, singly(groups[i])...)
			continue
		}
		hand(results, groups[i], r)
	}
	if len(again) > 0 {
		for i, r := range do(ctx, info, callsOf(o, again)) {
			hand(results, again[i], r)
		}
	}
	return results
}

// groups says which claims share a call: plain locks with the same arguments, where
// all of them are on one server and none waits for replicas.
func (b *Backend) groups(info ServerInfo, cs []driver.Claim, at []int, o order) [][]int {
	if info.Cluster || b.options.Replicas != 0 {
		return singly(at)
	}
	groups := make([][]int, 0, len(at)/togetherMost+1)
	plain, other := make([]int, 0, len(at)), []int(nil)
	for _, i := range at {
		if b.form(cs[i]) == b.forms.exclusive && (o.apart == nil || !o.apart(i)) {
			plain = append(plain, i)
		} else {
			other = append(other, i)
		}
	}
	for from, to := 0, 1; from < len(plain); to++ {
		if to == len(plain) || to-from == togetherMost || !alike(&cs[plain[from]], &cs[plain[to]]) {
			groups = append(groups, plain[from:to])
			from = to
		}
	}
	return append(groups, singly(other)...)
}

// alike says that a script of several locks can serve both claims.
func alike(a, b *driver.Claim) bool {
	return a.TTL == b.TTL && a.Holds == b.Holds && a.Tokens == b.Tokens
}

// singly makes a group of each.
func singly(at []int) [][]int {
	groups := make([][]int, len(at))
	for i := range at {
		groups[i] = at[i : i+1]
	}
	return groups
}

// callsOf returns one call for each group.
func callsOf(o order, groups [][]int) []Call {
	keys, args := 0, 0
	for _, g := range groups {
		k, a := o.room(len(g))
		keys, args = keys+k, args+a
	}
	left := room{keys: make([]string, keys), args: make([]string, args)}
	calls := make([]Call, len(groups), len(groups)+1) // a registration may come along
	for i, g := range groups {
		if to := left.cut(o.room(len(g))); len(g) == 1 {
			calls[i] = o.alone(to, g[0])
		} else {
			calls[i] = o.together(to, g)
		}
	}
	return calls
}

// refusesAKey reports that the server did not begin r's script, because the user
// has no access to one of its keys. It may have access to the others.
func refusesAKey(r Result) bool {
	var reply *ReplyError
	return errors.As(r.Err, &reply) && codeOf(reply.Text) == "NOPERM" && strings.Contains(reply.Text, "key")
}

// hand puts the answer to a group's call into results.
func hand(results []Result, group []int, r Result) {
	if len(group) == 1 {
		results[group[0]] = r
		return
	}
	list, _ := r.Value.([]any)
	if r.Err == nil && len(list) != len(group) {
		r.Err = badReply("of several locks", r.Value)
	}
	for j, i := range group {
		if r.Err != nil {
			results[i].Err = r.Err
			continue
		}
		results[i] = answer(list[j])
	}
}

// codeRefused begins the answer for a lock of which the server refused something.
const codeRefused = -3

// answer returns v, which a script of several locks answered for one of them, as
// if that had been alone.
func answer(v any) Result {
	if list, _ := v.([]any); len(list) == 2 && list[0] == any(int64(codeRefused)) {
		if words, ok := list[1].(string); ok {
			return Result{Err: &ReplyError{Text: strings.TrimSpace(words)}}
		}
	}
	return Result{Value: v}
}

// upTo returns 0 to n-1: the places of n claims.
func upTo(n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	return at
}
