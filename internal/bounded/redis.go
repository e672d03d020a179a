package bounded

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// mostAnswer is how many bytes of memory the answers to commands that are under way
	// together may take on one connection. It is far more than Holdfast reads: the longest
	// answers are a page of 200 names, and the list of the nodes and slots of a cluster.
	mostAnswer = 16 << 20
	// mostAnswers is the same for all connections of a client together.
	mostAnswers = 32 << 20
	// freeAnswer is how much a connection may take without asking Memory, so that usual answers
	// cost no more than a comparison.
	freeAnswer = 256 << 10
)

// Memory counts what the answers on all connections of a client take together. The zero value is
// ready. Several goroutines may use a Memory at once.
type Memory struct{ taken atomic.Int64 }

// redisConn is a connection to a Redis.
type redisConn struct {
	net.Conn
	memory  *Memory
	taken   atomic.Int64 // what this connection has taken from memory
	closed  atomic.Bool
	refusal atomic.Pointer[Refusal] // why the connection was closed; nil while it is used

	mu       sync.Mutex
	requests requests
	replies  replies
	spent    int64 // the memory of the complete replies since `until` was set
	until    int64 // the number of the request whose reply ends this sum
}

// Redis returns a connection over conn that passes on only what a Redis sends to a client of
// package rueidis. It follows RESP2 and RESP3 in both directions. Its method Read returns a
// *Refusal, and closes conn, at
//
//   - a length that is negative or above a limit, nesting that is deeper than in any reply of a
//     Redis, a line that does not end, and any text that is no RESP
//   - replies to commands that are under way together, if they take too much memory
//   - a reply that no command asked for, and the confirmation of another command
//   - a reply with fewer parts than rueidis reads without a check
//
// With such an answer, rueidis 1.0.79 allocates without a limit, or panics in a goroutine of its
// own. The connections of one client share `memory`. What a reply means is not checked.
func Redis(conn net.Conn, memory *Memory) net.Conn {
	return &redisConn{Conn: conn, memory: memory}
}

// Read implements net.Conn.
func (c *redisConn) Read(p []byte) (int, error) {
	if refusal := c.refusal.Load(); refusal != nil {
		return 0, refusal
	}
	n, err := c.Conn.Read(p)
	if n <= 0 {
		return n, err
	}
	good, reason := c.check(p[:n])
	if c.closed.Load() { // Close may have run before check took memory
		c.giveBack()
	}
	if reason == "" {
		return n, err
	}
	refusal := Refuse(c.Conn, reason)
	c.refusal.Store(refusal)
	_ = c.Close()
	return good, refusal
}

// Write implements net.Conn. After a refusal, it returns the *Refusal.
func (c *redisConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.requests.follow(p)
	c.mu.Unlock()
	n, err := c.Conn.Write(p)
	if refusal := c.refusal.Load(); err != nil && refusal != nil {
		err = refusal
	}
	return n, err
}

// Close implements net.Conn.
func (c *redisConn) Close() error {
	c.closed.Store(true)
	c.giveBack()
	return c.Conn.Close()
}

func (c *redisConn) giveBack() { c.memory.taken.Add(-c.taken.Swap(0)) }

// check follows the bytes that were read. If they must be refused, it returns the reason, and how
// many of the bytes come before the one that completes the reason. The client cannot act on
// these, because they end within a reply.
func (c *redisConn) check(b []byte) (good int, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := 0; at < len(b); {
		c.replies.limit = mostAnswer - c.spent
		n, complete, reason := c.replies.follow(b[at:])
		if reason == "" && c.spent+c.replies.cost > freeAnswer {
			reason = c.take(c.spent + c.replies.cost)
		}
		if reason == "" && complete {
			reason = c.complete()
		}
		if at += n; reason != "" {
			return at - 1, reason
		}
	}
	return len(b), ""
}

// complete handles a complete message, and returns why it must be refused, or "".
func (c *redisConn) complete() string {
	answered := c.requests.answered
	if reason := c.requests.answer(&c.replies.message); reason != "" {
		return reason
	}
	switch {
	case c.requests.answered >= c.until, c.requests.unknown: // no reply of those under way together is missing
		c.spent, c.until = 0, c.requests.written
	case c.requests.answered > answered: // rueidis keeps the reply until the last of them
		c.spent += c.replies.cost
	}
	c.replies.cost = 0
	if c.spent <= freeAnswer && c.taken.Load() > 0 {
		c.giveBack()
	}
	return ""
}

// take takes memory until the connection has n bytes. It returns why that is too much, or "".
func (c *redisConn) take(n int64) string {
	more := n - c.taken.Load()
	c.taken.Add(more)
	if all := c.memory.taken.Add(more); all > mostAnswers {
		return fmt.Sprintf("the servers announced answers of %d bytes or more; the limit is %d bytes for the answers on all connections", all, mostAnswers)
	}
	return ""
}
