package zktest

import (
	"encoding/binary"
	"errors"
	"io"
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

// Loss loses answers to writes, and to the requests by which locks are renewed: the
// connection is closed when one has arrived.
type Loss struct {
	Rate float64 // of the answers

	lost atomic.Int32
	over atomic.Bool
}

// Heal ends the losses.
func (l *Loss) Heal() { l.over.Store(true) }

// Lost returns how many answers were lost so far.
func (l *Loss) Lost() int { return int(l.lost.Load()) }

// Dialer is a zk.Dialer whose connections lose answers.
func (l *Loss) Dialer(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	c := &lossy{loss: l, unlucky: make(map[uint32]bool)}
	c.Packets = Packets{Conn: conn, Arrived: c.arrived}
	return c, nil
}

// errLost is what a client sees of a lost answer.
var errLost = errors.New("the test lost the answer")

// Packets is a connection of a client, that reads one packet of the server after the other.
type Packets struct {
	net.Conn
	// Arrived is called with the number of the request whose answer has arrived, and
	// before the client reads any of it.
	Arrived func(number uint32) error

	rest []byte // of the last packet
}

// Read reads from the last packet or the next.
func (p *Packets) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		length := make([]byte, 4)
		if _, err := io.ReadFull(p.Conn, length); err != nil {
			return 0, err
		}
		packet := append(length, make([]byte, binary.BigEndian.Uint32(length))...)
		if _, err := io.ReadFull(p.Conn, packet[4:]); err != nil {
			return 0, err
		}
		if err := p.Arrived(binary.BigEndian.Uint32(packet[4:])); err != nil {
			return 0, err
		}
		p.rest = packet
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// lossy is a connection of a client that writes whole packets, as go-zookeeper does.
type lossy struct {
	Packets
	loss *Loss

	mu      sync.Mutex
	unlucky map[uint32]bool // requests whose answers get lost, by xid
}

// Write sends a request, and decides what becomes of its answer.
func (c *lossy) Write(b []byte) (int, error) {
	const create, remove, sync, multi, create2 = 1, 2, 9, 14, 15
	if len(b) >= 12 {
		switch xid := binary.BigEndian.Uint32(b[4:]); binary.BigEndian.Uint32(b[8:]) {
		case create, remove, sync, multi, create2:
			if rand.Float64() < c.loss.Rate && !c.loss.over.Load() {
				c.mu.Lock()
				c.unlucky[xid] = true
				c.mu.Unlock()
			}
		}
	}
	return c.Conn.Write(b)
}

// arrived loses the answer to a request, or does not.
func (c *lossy) arrived(xid uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unlucky[xid] {
		c.loss.lost.Add(1)
		_ = c.Close()
		return errLost
	}
	return nil
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
