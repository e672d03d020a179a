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
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// nodes is rueidis' cluster client as package adapter uses it. rueidis does not
// tell which node a key belongs to, so the nodes are asked once more. What they
// said says which calls can travel together; where rueidis sends them is its own
// business, except for calls that replicas must acknowledge.
type nodes struct {
	*adapter.Watch
	library *library

	gate  chan struct{} // one look at a time; a channel, for a mutex must not be held across I/O
	known atomic.Pointer[slotMap]
	doubt atomic.Bool
	next  atomic.Int64 // no look before, in Unix nanoseconds

	asked sync.Map // addresses of nodes that have yet to answer

	seen   slotMap      // what the latest look of the Watch found
	detour atomic.Int64 // till when calls go where that says, in Unix nanoseconds
}

func newNodes(l *library) *nodes {
	n := &nodes{library: l, gate: make(chan struct{}, 1)}
	n.known.Store(&slotMap{})
	n.Watch = adapter.NewWatch(watchEvery, watchFor, n.watch)
	return n
}

func (n *nodes) Homes(ctx context.Context, calls []redishold.Call) []string {
	slots := *n.known.Load()
	if len(slots) == 0 || n.Changed() == nil { // while looks are taken anyway, it does not wait
		slots = n.slots(ctx)
	}
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
	if !ok && node.Redirected && len(calls[0].Keys) > 0 {
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
	if len(*n.known.Load()) == 0 || n.doubt.Load() {
		select {
		case n.gate <- struct{}{}:
			n.refresh(ctx)
			<-n.gate
		case <-ctx.Done():
		}
	}
	return *n.known.Load()
}

// refresh asks some nodes, side by side as one of them may hang. Where none of them
// says, what was known stays.
func (n *nodes) refresh(ctx context.Context) {
	now := time.Now().UnixNano()
	if len(*n.known.Load()) > 0 && !n.doubt.Load() || now < n.next.Load() {
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
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	answers, asked := make(chan slotMap, askMost), 0
	for addr, node := range n.library.client.Nodes() {
		if asked == askMost {
			break
		}
		if _, hangs := n.asked.LoadOrStore(addr, nil); !hangs {
			asked++
			go func() {
				defer n.asked.Delete(addr)
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

// clusterSlots asks one node. The question is not taken back when ctx ends: it
// may be the one for which rueidis makes the connection, and other waiters for
// that would fail with it. It ends when rueidis finds the connection dead, and is
// arbitrary so that rueidis does not repeat it.
func clusterSlots(ctx context.Context, node rueidis.Client, addr string) slotMap {
	reply, _ := node.Do(context.WithoutCancel(ctx), node.B().Arbitrary("CLUSTER", "SLOTS").Build()).ToAny() // nil of an error
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
		fields := wire.Read(r)
		first, last, master := fields.Number(), fields.Number(), fields.Nested()
		host, _ := master.Take().(string)
		port := master.Number()
		if host == "?" || !master.More() && !master.Done() { // something is not as it should be
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
