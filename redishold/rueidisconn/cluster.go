package rueidisconn

import (
	"context"
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
)

// nodes is rueidis' cluster client as package adapter uses it. rueidis does not
// tell which node a key belongs to, so the nodes are asked once more. What they
// said says which calls can travel together; where rueidis sends them is its own
// business, except for calls that replicas must acknowledge.
type nodes struct {
	library *library

	gate  chan struct{} // one look at a time; a channel, for a mutex must not be held across I/O
	known atomic.Pointer[slotMap]
	doubt atomic.Bool
	next  atomic.Int64 // no look before, in Unix nanoseconds

	mu    sync.Mutex
	asked map[string]bool // nodes that have yet to answer

	watch watch
}

var _ adapter.Cluster = (*nodes)(nil)

func newNodes(l *library) *nodes {
	return &nodes{library: l, gate: make(chan struct{}, 1), asked: make(map[string]bool)}
}

// Homes looks up where calls belong.
func (n *nodes) Homes(ctx context.Context, calls []redishold.Call) []string {
	slots := n.latest(ctx)
	homes := make([]string, len(calls))
	for i := range calls {
		if len(calls[i].Keys) > 0 {
			homes[i] = slots.home(n.slot(calls[i].Keys[0]))
		}
	}
	return homes
}

// slot returns the hash slot of key, as rueidis computes it for its commands.
func (n *nodes) slot(key string) int {
	cmd := n.library.client.B().Arbitrary("EVAL").Keys(key).Build()
	return int(cmd.Slot())
}

// At runs calls on one node. What rueidis does not know that node by, it finds by
// the key, over a connection of its own for each call.
func (n *nodes) At(ctx context.Context, node adapter.Destination, calls []redishold.Call) []redishold.Result {
	if client, ok := n.client(ctx, node, calls); ok {
		return n.library.run(ctx, client.DoMulti, calls, node.Asking)
	}
	results := make([]redishold.Result, len(calls))
	for i := range calls {
		dedicated, release := n.library.client.Dedicate()
		results[i] = n.library.run(ctx, dedicated.DoMulti, calls[i:i+1], false)[0]
		release()
	}
	return results
}

// client returns rueidis' client for a node. One that was named in a redirection
// may be new to rueidis: it makes its acquaintance when it is redirected itself.
func (n *nodes) client(ctx context.Context, node adapter.Destination, calls []redishold.Call) (rueidis.Client, bool) {
	if node.Addr == "" {
		return nil, false
	}
	client, ok := n.library.client.Nodes()[node.Addr]
	if !ok && node.Told && len(calls[0].Keys) > 0 {
		n.library.client.Do(undated{ctx}, n.library.client.B().Exists().Key(calls[0].Keys[0]).Build())
		client, ok = n.library.client.Nodes()[node.Addr]
	}
	return client, ok
}

const (
	lookEvery = 100 * time.Millisecond
	lookLimit = time.Second
	askMost   = 4 // nodes at a time
)

// slots returns where keys live, as far as anybody knows.
func (n *nodes) slots(ctx context.Context) slotMap {
	if n.known.Load() == nil || n.doubt.Load() {
		select {
		case n.gate <- struct{}{}:
			n.look(ctx)
			<-n.gate
		case <-ctx.Done():
		}
	}
	if slots := n.known.Load(); slots != nil {
		return *slots
	}
	return nil
}

// latest is slots, but does not wait for a look while others are taken anyway.
func (n *nodes) latest(ctx context.Context) slotMap {
	if slots := n.known.Load(); slots != nil && n.Changed() != nil {
		return *slots
	}
	return n.slots(ctx)
}

// look asks some nodes, side by side as one of them may hang. Where none of them
// says, what was known stays.
func (n *nodes) look(ctx context.Context) {
	now := time.Now().UnixNano()
	if n.known.Load() != nil && !n.doubt.Load() || now < n.next.Load() {
		return // somebody else has just looked
	}
	n.next.Store(now + int64(lookEvery))
	if slots := n.ask(ctx); len(slots) > 0 {
		n.known.Store(&slots)
		n.doubt.Store(false)
	}
}

// ask returns what the first of some nodes says, nil if none of them does.
func (n *nodes) ask(ctx context.Context) slotMap {
	answers, asked := make(chan slotMap, askMost), 0
	for addr, node := range n.library.client.Nodes() {
		if asked < askMost && n.mark(addr, true) {
			asked++
			go func() {
				defer n.mark(addr, false)
				answers <- clusterSlots(ctx, node, addr)
			}()
		}
	}
	limit := time.NewTimer(lookLimit)
	defer limit.Stop()
	for range asked {
		select {
		case slots := <-answers:
			if len(slots) > 0 {
				return slots
			}
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// mark notes that addr was asked, or has answered, and reports whether that is
// news: a node that hangs is not asked again.
func (n *nodes) mark(addr string, asked bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked[addr] == asked {
		return false
	}
	n.asked[addr] = asked
	if !asked {
		delete(n.asked, addr)
	}
	return true
}

// clusterSlots asks one node. The question is not taken back when ctx ends: it
// may be the one for which rueidis makes the connection, and others who wait for
// that would fail with it. It ends when rueidis finds the connection dead, and is
// arbitrary so that rueidis does not repeat it.
func clusterSlots(ctx context.Context, node rueidis.Client, addr string) slotMap {
	reply, err := node.Do(context.WithoutCancel(ctx), node.B().Arbitrary("CLUSTER", "SLOTS").Build()).ToAny()
	if err != nil {
		return nil
	}
	return readSlots(reply, addr)
}

// slotMap says where slots live: ranges that do not overlap, in order.
type slotMap []slotRange

type slotRange struct {
	first, last int
	addr        string
}

// home returns the address of slot's master, "" if it is not known.
func (m slotMap) home(slot int) string {
	i := sort.Search(len(m), func(i int) bool { return m[i].last >= slot })
	if i == len(m) || slot < m[i].first {
		return ""
	}
	return m[i].addr
}

// readSlots reads the answer to CLUSTER SLOTS: for each range its ends and its
// nodes, the master first, each as host and port. A node that does not know its
// own name has the host at which it was asked.
func readSlots(reply any, asked string) slotMap {
	var slots slotMap
	ranges, _ := reply.([]any)
	for _, r := range ranges {
		fields, _ := r.([]any)
		if len(fields) < 3 {
			continue
		}
		first, ok1 := fields[0].(int64)
		last, ok2 := fields[1].(int64)
		addr, ok3 := masterAddr(fields[2], asked)
		if ok1 && ok2 && ok3 {
			slots = append(slots, slotRange{int(first), int(last), addr})
		}
	}
	slices.SortFunc(slots, func(a, b slotRange) int { return a.first - b.first })
	return slots
}

func masterAddr(node any, asked string) (string, bool) {
	fields, _ := node.([]any)
	if len(fields) < 2 {
		return "", false
	}
	host, _ := fields[0].(string)
	port, ok := fields[1].(int64)
	if host == "?" || !ok {
		return "", false
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), true
}
