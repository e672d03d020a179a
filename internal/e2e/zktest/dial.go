package zktest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/cutlink"
)

// Link is what a client's connections go through, until it is cut. The zero Link is whole.
type Link struct{ cutlink.Link }

// Dialer is a zk.Dialer through the link.
func (l *Link) Dialer(network, address string, timeout time.Duration) (net.Conn, error) {
	return l.Dial(timeout, func() (net.Conn, error) { return net.DialTimeout(network, address, timeout) })
}

// Loss loses answers to writes: the connection is closed when one has arrived.
type Loss struct {
	Rate float64 // of the answers

	lost atomic.Int32
}

// Lost returns how many answers were lost so far.
func (l *Loss) Lost() int { return int(l.lost.Load()) }

// Dialer is a zk.Dialer whose connections lose answers.
func (l *Loss) Dialer(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &lossy{Conn: conn, loss: l, unlucky: make(map[uint32]bool)}, nil
}

// errLost is what a client sees of a lost answer.
var errLost = errors.New("the test lost the answer")

// lossy is a connection of a client that writes and reads whole packets, but for the
// length before them, as go-zookeeper does.
type lossy struct {
	net.Conn
	loss *Loss

	mu      sync.Mutex
	unlucky map[uint32]bool // requests whose answers get lost, by xid
}

// Write sends a request, and decides what becomes of its answer.
func (c *lossy) Write(b []byte) (int, error) {
	const create, remove, multi, create2 = 1, 2, 14, 15
	if len(b) >= 12 {
		switch xid := binary.BigEndian.Uint32(b[4:]); binary.BigEndian.Uint32(b[8:]) {
		case create, remove, multi, create2:
			if rand.Float64() < c.loss.Rate {
				c.mu.Lock()
				c.unlucky[xid] = true
				c.mu.Unlock()
			}
		}
	}
	return c.Conn.Write(b)
}

// Read reads an answer, or loses it.
func (c *lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n < 16 { // not an answer to a request
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unlucky[binary.BigEndian.Uint32(b)] {
		c.loss.lost.Add(1)
		_ = c.Close()
		return 0, errLost
	}
	return n, err
}

// Count counts the requests of clients.
type Count struct {
	mu sync.Mutex
	n  map[uint32]int
}

// All returns how many requests there were, but for pings.
func (c *Count) All() (all int) {
	const ping = 11
	c.mu.Lock()
	defer c.mu.Unlock()
	for op, n := range c.n {
		if op != ping {
			all += n
		}
	}
	return all
}

// Closed returns how many sessions clients have asked to end.
func (c *Count) Closed() int {
	const closeSession = ^uint32(10) // -11
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[closeSession]
}

// Dialer is a zk.Dialer.
func (c *Count) Dialer(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &counted{conn, c}, nil
}

type counted struct {
	net.Conn
	count *Count
}

// Write counts a request.
func (c *counted) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		c.count.mu.Lock()
		if c.count.n == nil {
			c.count.n = make(map[uint32]int)
		}
		c.count.n[binary.BigEndian.Uint32(b[8:])]++
		c.count.mu.Unlock()
	}
	return c.Conn.Write(b)
}
