package redishold

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// maxBatch is the maximal number of locks in one call. The number is small, because the server
// does nothing else while it runs a script. A script for fifty locks takes 0.2 ms, a script for
// one lock takes 0.01 ms.
const maxBatch = 50

// batchScript returns the name of the script that does for several locks what the script of c
// does for one lock. It returns "" if there is no such script. The result `own` is the number of
// arguments that may differ from lock to lock. They are the first arguments of c. All other
// arguments must be equal for all locks. The reply of the script is a list with one element for
// each lock: the reply of the script for one lock, or {-3, error}. If all elements are the same
// number, the reply is that number.
func (b *Backend) batchScript(c *Call) (script string, own int) {
	switch c.Script {
	case b.scripts.Acquire:
		if len(c.Args) == kinds.AcquireArgs { // with more arguments, the script of c also publishes that the lock is taken
			return "acquire_all", 1
		}
	case b.scripts.Renew:
		return "renew_all", 1
	case b.scripts.Release:
		return "release_all", 2
	}
	return "", 0
}

// doAll runs m.calls, and returns one Result for each call. It needs one round trip to each
// server. If the user has no access to a key, some calls need a second round trip. The function
// `do` sends the calls, and also registers the clients of the claims `register`.
func (b *Backend) doAll(ctx context.Context, info ServerInfo, do doer, m *batchBuf, register []driver.Claim) []Result {
	b.group(info, m)
	keys, args := 0, 0
	for i := range m.calls {
		keys, args = keys+len(m.calls[i].Keys), args+len(m.calls[i].Args)
	}
	buf := grown(&m.shared, keys, args)
	m.sent = m.sent[:0]
	for _, g := range m.groups {
		m.sent = append(m.sent, b.combine(&buf, m.calls, g))
	}
	m.results = append(m.results[:0], make([]Result, len(m.calls))...)
	var retry []int
	for i, r := range b.send(ctx, info, do, m, register) {
		if len(m.groups[i]) > 1 && refusesAKey(r) {
			retry = append(retry, m.groups[i]...)
			continue
		}
		distribute(m.results, m.groups[i], r)
	}
	if len(retry) > 0 {
		wire.Scatter(m.results, retry, do(ctx, info, wire.Pick(m.calls, retry)))
	}
	return m.results
}

// doer is the type of doReplicated and doRegistering, which run calls and register the clients
// of claims.
type doer func(context.Context, ServerInfo, []Call, ...driver.Claim) []Result

// send sends m.sent with `do`. If that is one call, and nothing else has to be sent with it, send
// does not need `do`.
func (b *Backend) send(ctx context.Context, info ServerInfo, do doer, m *batchBuf, register []driver.Claim) []Result {
	unregistered := func(c driver.Claim) bool { return !b.clients.Registered(c) }
	if len(m.sent) != 1 || b.options.Replicas != 0 || slices.ContainsFunc(register, unregistered) {
		return do(ctx, info, m.sent, register...)
	}
	m.one[0] = b.one(ctx, &m.sent[0])
	return m.one[:]
}

// group divides m.calls into m.groups. A group is a slice of indices of m.calls. The Backend
// sends all calls of a group as one call. The calls for which batchScript has a script are
// divided in their order: successive ones are in one group if combinable returns true for them,
// and if the group has at most maxBatch calls. Every other call is a group of its own. In a
// cluster, and if replicas must acknowledge, every call is a group of its own.
func (b *Backend) group(info ServerInfo, m *batchBuf) {
	m.groups, m.indices = m.groups[:0], slices.Grow(m.indices[:0], len(m.calls))
	alone := func(i int) bool {
		script, _ := b.batchScript(&m.calls[i])
		return script == "" || info.Cluster || b.options.Replicas != 0
	}
	for i := range m.calls {
		if !alone(i) {
			m.indices = append(m.indices, i)
		}
	}
	plain := m.indices
	for from, to := 0, 1; from < len(plain); to++ {
		if to == len(plain) || to-from == maxBatch || !b.combinable(&m.calls[plain[from]], &m.calls[plain[to]]) {
			m.groups = append(m.groups, plain[from:to])
			from = to
		}
	}
	for i := range m.calls {
		if alone(i) {
			m.indices = append(m.indices, i)
			m.groups = append(m.groups, m.indices[len(m.indices)-1:])
		}
	}
}

// combinable reports whether one call of a script for several locks can do what the calls x and
// y do.
func (b *Backend) combinable(x, y *Call) bool {
	_, own := b.batchScript(x)
	return x.Script == y.Script && slices.Equal(x.Args[own:], y.Args[own:])
}

// combine returns one call for all calls whose indices are in `group`. The returned call uses
// the slices of buf.
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

// refusesAKey reports whether the server refused to begin the script of r, because the user has
// no access to one of its keys. The user may have access to the other keys.
func refusesAKey(r Result) bool {
	text := wire.ReplyText(r.Err)
	return wire.CodeOf(text) == "NOPERM" && strings.Contains(text, "key")
}

// distribute writes the result of each call of a group into `results`. The parameter r is the
// result of the one call that was sent for the group.
func distribute(results []Result, group []int, r Result) {
	if len(group) == 1 {
		results[group[0]] = r
		return
	}
	list, _ := r.Value.([]any)
	_, same := r.Value.(int64) // the reply for each lock
	if r.Err == nil && !same && len(list) != len(group) {
		r.Err = wire.BadReply("of several locks", r.Value)
	}
	for j, i := range group {
		switch {
		case r.Err != nil:
			results[i].Err = r.Err
		case same:
			results[i] = r
		default:
			results[i] = single(list[j])
		}
	}
}

// codeRefused is the first element of {-3, error}. A reply for several locks has this list in
// place of the reply for one lock, if the server refused a command for that lock.
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
