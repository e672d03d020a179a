package rueidisconn

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// nodes is the adapter.Cluster over a cluster client of rueidis. rueidis knows the slots, but
// has no method that returns the node of a key. So the type `nodes` asks the servers for the
// slots itself. The known slots decide which calls share a pipeline, and sometimes where the
// calls are sent.
type nodes struct {
	*adapter.Poller
	library *library

	known     atomic.Pointer[slotMap]
	stale     atomic.Bool   // the known slots must be refreshed
	gate      chan struct{} // for one refresh at a time; a mutex must not be held across I/O
	notBefore time.Time     // when the next refresh may begin; for the owner of the gate

	unanswered sync.Map // addresses of nodes that were asked and have not replied yet

	polled      slotMap      // the slots at the latest poll
	divertUntil atomic.Int64 // until when calls are diverted, in Unix nanoseconds
}

func newNodes(l *library) *nodes {
	n := &nodes{library: l, gate: make(chan struct{}, 1)}
	n.known.Store(&slotMap{})
	n.Poller = adapter.NewPoller(pollEvery, pollFor, n.poll)
	return n
}

func (n *nodes) Home(ctx context.Context, key string) string {
	if key == "" {
		return ""
	}
	slots := *n.known.Load()
	if len(slots) == 0 || n.Changed() == nil { // while polls refresh the slots anyway, Home does not wait
		slots = n.slots(ctx)
	}
	return slots.home(n.slot(key))
}

// slot returns the hash slot of key, as rueidis computes it for its commands.
func (n *nodes) slot(key string) int {
	cmd := n.library.client.B().Arbitrary("EVAL").Keys(key).Build()
	return int(cmd.Slot())
}

// send sends calls for one node. rueidis routes commands with keys that need no WAIT, and follows
// redirections. For some time after another node has become a master, send routes them itself:
// rueidis refreshes its slots up to a second later, from one node, which may be behind.
func (n *nodes) send(ctx context.Context, node adapter.Destination, calls []*redishold.Call, results []redishold.Result) {
	l, wait := n.library, waits(calls[0])
	if wait || node.Addr != "" || len(calls[0].Keys) == 0 || time.Now().UnixNano() < n.divertUntil.Load() {
		if client, ok := n.at(ctx, node, calls[0]); ok {
			l.run(ctx, client.DoMulti, calls, results, node.Asking)
			return
		}
	}
	switch {
	case wait: // over connections for which rueidis finds the node by the key
		for i := range calls {
			dedicated, release := l.client.Dedicate()
			l.run(ctx, dedicated.DoMulti, calls[i:i+1], results[i:i+1], false)
			release()
		}
	case len(calls) == 1:
		results[0] = result(ctx, l.client.Do(withoutDeadline{ctx}, l.eval(calls[0], false).ToPipe()))
	default:
		l.run(ctx, l.client.DoMulti, calls, results, false)
	}
}

// at returns rueidis' client for the node of a call, and false if rueidis has none. A call without
// keys gets any node with slots. For a node that only a redirection has named, this method first
// sends a command for the key of the call: the cluster redirects it, and rueidis adds the node.
func (n *nodes) at(ctx context.Context, node adapter.Destination, call *redishold.Call) (rueidis.Client, bool) {
	addr := node.Addr
	if addr == "" {
		addr = n.Home(ctx, adapter.Key(call))
	}
	if addr == "" && len(call.Keys) == 0 { // rueidis would also choose a dead address of the URL
		if slots := n.slots(ctx); len(slots) > 0 {
			addr = slots[rand.IntN(len(slots))].addr
		}
	}
	client, ok := n.library.client.Nodes()[addr]
	if !ok && node.Addr != "" && len(call.Keys) > 0 {
		n.library.client.Do(withoutDeadline{ctx}, n.library.client.B().Exists().Key(call.Keys[0]).Build().ToPipe())
		client, ok = n.library.client.Nodes()[addr]
	}
	return client, ok
}

const (
	refreshEvery   = 100 * time.Millisecond
	refreshTimeout = time.Second
	maxAsked       = 4 // maximal number of nodes that are asked at a time
)

// slots returns the known slots. If they are stale or empty, it first asks the nodes for them.
// If no node replies, the known slots stay.
func (n *nodes) slots(ctx context.Context) slotMap {
	if n.fresh() {
		return *n.known.Load()
	}
	select {
	case n.gate <- struct{}{}:
	case <-ctx.Done():
		return *n.known.Load()
	}
	defer func() { <-n.gate }()
	if now := time.Now(); !n.fresh() && now.After(n.notBefore) { // otherwise another goroutine has just asked
		n.notBefore = now.Add(refreshEvery)
		if slots := n.ask(ctx); len(slots) > 0 {
			n.known.Store(&slots)
			n.stale.Store(false)
		}
	}
	return *n.known.Load()
}

func (n *nodes) fresh() bool { return len(*n.known.Load()) > 0 && !n.stale.Load() }

// ask asks some nodes for the slots, all at the same time, because a node may hang. It returns
// the slots from the node that replies first, or nil if no node replies.
func (n *nodes) ask(ctx context.Context) slotMap {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	answers, asked := make(chan slotMap, maxAsked), 0
	for addr, node := range n.library.client.Nodes() {
		if asked == maxAsked {
			break
		}
		if _, hangs := n.unanswered.LoadOrStore(addr, nil); !hangs {
			asked++
			go func() {
				defer n.unanswered.Delete(addr)
				answers <- clusterSlots(ctx, node, addr)
			}()
		}
	}
	for range asked {
		select {
		case slots := <-answers:
			if len(slots) > 0 {
				return slots
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// clusterSlots asks one node for the slots. The end of ctx does not end the command, which rueidis
// does not repeat: other callers may wait for the connection that rueidis makes for it. It ends
// when rueidis finds the connection dead.
func clusterSlots(ctx context.Context, node rueidis.Client, addr string) slotMap {
	reply, _ := node.Do(context.WithoutCancel(ctx), node.B().Arbitrary("CLUSTER", "SLOTS").Build().ToPipe()).ToAny() // nil after an error
	return readSlots(reply, addr)
}

// slotMap has the ranges of slots, each with the address of its master, in order and without
// overlaps.
type slotMap []slotRange

type slotRange struct {
	first, last int
	addr        string
}

// home returns the address of the master of a slot, or "" if the master is not known.
func (m slotMap) home(slot int) string {
	i := sort.Search(len(m), func(i int) bool { return m[i].last >= slot })
	if i == len(m) || slot < m[i].first {
		return ""
	}
	return m[i].addr
}

// readSlots returns the slots in a reply to CLUSTER SLOTS: for each range its first and last slot,
// and its nodes with host and port, the master first. A node that does not know its own name leaves
// out the host, and the range gets that of `asked`, the address of the node that sent the reply.
func readSlots(reply any, asked string) slotMap {
	var slots slotMap
	ranges, _ := reply.([]any)
	for _, r := range ranges {
		fields := wire.Read(r)
		first, last, master := fields.Number(), fields.Number(), fields.Nested()
		host, _ := master.Take().(string)
		port := master.Number()
		if host == "?" || !master.More() && !master.Done() { // the reply is not as expected
			continue
		}
		if host == "" {
			host, _, _ = net.SplitHostPort(asked)
		}
		slots = append(slots, slotRange{int(first), int(last), net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	slices.SortFunc(slots, func(a, b slotRange) int { return a.first - b.first })
	return slots
}
