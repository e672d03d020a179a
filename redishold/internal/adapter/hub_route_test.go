package adapter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// fakeShards is a Router to servers that refuse the channels of others as Redis does. Its
// routes are wrong until Review is called.
type fakeShards struct {
	mu      sync.Mutex
	nodes   map[string]*fakeNode
	owner   map[string]string // of channels, as it is
	known   map[string]string // as Route knows
	reviews int
	mute    error // what Route fails with
}

// fakeNode is one of them.
type fakeNode struct {
	cluster *fakeShards
	addr    string
	server  fakeServer
}

func newFakeShards(owner map[string]string) *fakeShards {
	c := &fakeShards{nodes: make(map[string]*fakeNode), owner: owner, known: maps.Clone(owner)}
	for _, addr := range []string{"n1", "n2", "n3"} {
		c.nodes[addr] = &fakeNode{cluster: c, addr: addr}
	}
	return c
}

func (c *fakeShards) Route(_ context.Context, channel string) (Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute != nil {
		return Node{}, c.mute
	}
	addr := c.known[channel]
	return Node{Addr: addr, Dial: c.nodes[addr].dial}, nil
}

func (c *fakeShards) Review() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reviews++
	c.known = maps.Clone(c.owner)
}

// move gives a channel to another node, of which no client is notified.
func (c *fakeShards) move(channel, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner[channel] = addr
}

func (c *fakeShards) owns(addr, channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner[channel] == addr
}

func (n *fakeNode) dial(ctx context.Context, ev *Session) (Link, error) {
	link, err := n.server.dial(ctx, ev)
	if err != nil {
		return nil, err
	}
	return &clusterLink{link.(*fakeLink), n}, nil
}

// clusterLink is a fakeLink that serves the channels of its node only.
type clusterLink struct {
	*fakeLink
	node *fakeNode
}

func (l *clusterLink) Subscribe(names []string) {
	for _, name := range names {
		if !l.node.cluster.owns(l.node.addr, name) {
			l.server.note("!" + name)
			l.ev.Denied(name, &redishold.ReplyError{Text: "MOVED 1 host:1"})
			continue
		}
		l.fakeLink.Subscribe([]string{name})
	}
}

// inCluster runs f where time is faked, and fails if a goroutine is left after the time idleFor.
// a and b live on n1, c on n2.
func inCluster(t *testing.T, f func(t *testing.T, c *fakeShards, h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeShards(map[string]string{"a": "n1", "b": "n1", "c": "n2"})
		f(t, c, keepingHub(c))
		time.Sleep(idleFor)
		synctest.Wait()
	})
}

// logs compares what the nodes were asked.
func (c *fakeShards) logs(t *testing.T, want map[string][]string) {
	t.Helper()
	for addr, n := range c.nodes {
		if _, _, log := n.server.get(); !slices.Equal(log, want[addr]) {
			t.Errorf("%s was asked %v, want %v", addr, log, want[addr])
		}
	}
}

func mustSubscribe(t *testing.T, h *Hub, name string, notify func(redishold.Notice)) redishold.Subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sub, err := h.Subscribe(ctx, name, notify)
	if err != nil {
		t.Fatalf("subscribe to %s: %v", name, err)
	}
	return sub
}

func TestOneLinkPerNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		for _, name := range []string{"a", "b", "c"} {
			sub := mustSubscribe(t, h, name, ignore)
			synctest.Wait()
			defer sub.Close()
		}
		c.logs(t, map[string][]string{"n1": {"+a", "+b"}, "n2": {"+c"}})
	})
}

func TestStaleRouteIsCorrected(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		c.move("a", "n2")
		start := time.Now()
		sub := mustSubscribe(t, h, "a", ignore)
		if took := time.Since(start); took > shortestPause {
			t.Errorf("took %v, want at most %v", took, shortestPause)
		}
		sub.Close()
		time.Sleep(idleFor)
		c.logs(t, map[string][]string{"n1": {"!a", "closed"}, "n2": {"+a", "-a", "closed"}})
	})
}

// When a slot moves, the server ends the subscriptions of its channels. Those of
// other slots stay as they are.
func TestMovedChannelIsRestored(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		var a, b counter
		subA, subB := mustSubscribe(t, h, "a", a.notify), mustSubscribe(t, h, "b", b.notify)
		c.move("a", "n2")
		_, link, _ := c.nodes["n1"].server.get()
		link.ev.Unsubscribed("a")
		time.Sleep(shortestPause)
		a.is(t, 2)
		b.is(t, 1)
		c.logs(t, map[string][]string{"n1": {"+a", "+b"}, "n2": {"+a"}})
		link.ev.Unsubscribed("a") // late, and from where it is not any more
		time.Sleep(longestPause)
		a.is(t, 2)
		subA.Close()
		subB.Close()
	})
}

// A channel whose new node is not known yet is asked for at the old one, ever
// more seldom.
func TestChannelThatNobodyServes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		var a counter
		sub := mustSubscribe(t, h, "a", a.notify)
		c.mu.Lock()
		c.mute = errors.New("no answer")
		c.mu.Unlock()
		c.move("a", "n2")
		_, link, _ := c.nodes["n1"].server.get()
		link.ev.Unsubscribed("a")
		time.Sleep(time.Minute)
		if _, _, log := c.nodes["n1"].server.get(); len(log) < 60 || len(log) > 150 {
			t.Errorf("asked %d times in a minute, want about once per second", len(log))
		}
		c.mu.Lock()
		c.mute = nil
		c.mu.Unlock()
		time.Sleep(longestPause)
		a.is(t, 2)
		sub.Close()
	})
}

// A new listener on a slot that no node serves gets an error; listeners that are already
// confirmed wait.
func TestClusterDown(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		var a counter
		sub := mustSubscribe(t, h, "a", a.notify)
		n1 := &c.nodes["n1"].server
		n1.set(behaviour{deny: &redishold.ReplyError{Text: "CLUSTERDOWN Hash slot not served"}})
		if _, err := h.Subscribe(t.Context(), "a", ignore); code(err) != "CLUSTERDOWN" {
			t.Errorf("got error %v, want CLUSTERDOWN", err)
		}
		n1.set(behaviour{})
		time.Sleep(2 * longestPause)
		a.is(t, 2)
		sub.Close()
	})
}

func TestDeadNodeIsLeft(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		var a, b, other counter
		subs := []redishold.Subscription{
			mustSubscribe(t, h, "a", a.notify), mustSubscribe(t, h, "b", b.notify), mustSubscribe(t, h, "c", other.notify),
		}
		n1 := &c.nodes["n1"].server
		n1.set(behaviour{refuse: errors.New("refused")})
		n1.breakLink()
		time.Sleep(2 * time.Second)
		c.move("a", "n3")
		c.move("b", "n2")
		time.Sleep(2 * longestPause)
		a.is(t, 2)
		b.is(t, 2)
		other.is(t, 1)
		dialled, _, _ := n1.get()
		time.Sleep(time.Minute)
		if again, _, _ := n1.get(); again != dialled {
			t.Error("a node without channels is still dialled")
		}
		for _, sub := range subs {
			sub.Close()
		}
	})
}

// The answer of a dead node must not be all that a newcomer ever gets.
func TestFailedFirstSubscriptionIsDoubted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		cause := errors.New("refused")
		c.nodes["n1"].server.set(behaviour{refuse: cause})
		c.move("a", "n2")
		if _, err := h.Subscribe(t.Context(), "a", ignore); !errors.Is(err, cause) {
			t.Errorf("got error %v, want %v", err, cause)
		}
		mustSubscribe(t, h, "a", ignore).Close()
	})
}

// A node may leave its cluster and not say so.
func TestRoutesAreReviewed(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		var a, b counter
		subA, subB := mustSubscribe(t, h, "a", a.notify), mustSubscribe(t, h, "b", b.notify)
		c.move("a", "n3")
		time.Sleep(reviewEvery + longestPause)
		a.is(t, 2)
		b.is(t, 1)
		c.logs(t, map[string][]string{"n1": {"+a", "+b", "-a"}, "n3": {"+a"}})
		subA.Close()
		subB.Close()
	})
}

func TestRouteFails(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		c.mute = errors.New("no answer")
		if _, err := h.Subscribe(t.Context(), "a", ignore); !errors.Is(err, c.mute) {
			t.Errorf("got error %v, want %v", err, c.mute)
		}
	})
}

func TestHubCloseWithSeveralNodes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
		mustSubscribe(t, h, "a", ignore)
		mustSubscribe(t, h, "c", ignore)
		h.Close()
		c.logs(t, map[string][]string{"n1": {"+a", "closed"}, "n2": {"+c", "closed"}})
	})
}

// Where there is one node only, a subscription that the server ends is restored
// there.
func TestEndedSubscriptionIsRestored(t *testing.T) {
	inBubble(t, func(t *testing.T, s *fakeServer, h *Hub) {
		var a counter
		sub := mustSubscribe(t, h, "a", a.notify)
		_, link, _ := s.get()
		link.ev.Unsubscribed("a")
		time.Sleep(shortestPause)
		a.is(t, 2)
		sub.Close()
	})
}

// However a link fails, the Router learns of it.
func TestFailedNodeIsDoubted(t *testing.T) {
	for name, fail := range map[string]func(*fakeServer, *Hub){
		"broken": func(s *fakeServer, _ *Hub) { s.breakLink() },
		"silent": func(s *fakeServer, _ *Hub) {
			s.set(behaviour{silent: errors.New("silent")})
			time.Sleep(time.Second)
		},
		"no connection, as its first use shows": func(s *fakeServer, h *Hub) {
			s.set(behaviour{deny: errors.New("refused")})
			_, _ = h.Subscribe(context.Background(), "b", ignore)
		},
	} {
		inCluster(t, func(t *testing.T, c *fakeShards, h *Hub) {
			sub := mustSubscribe(t, h, "a", ignore)
			defer sub.Close()
			fail(&c.nodes["n1"].server, h)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.reviews == 0 {
				t.Errorf("%s: not reviewed", name)
			}
		})
	}
}
