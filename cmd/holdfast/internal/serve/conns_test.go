package serve

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// crowd is a listener for connections from many addresses.
type crowd struct {
	*testing.T
	*fairListener
	next chan net.Conn
}

func newCrowd(t *testing.T, g *Authenticator) *crowd {
	t.Helper()
	l := &oneConn{make(chan net.Conn, 1), make(chan struct{})}
	return &crowd{t, newFairListener(l, g.mostConns), l.conns}
}

// from is a connection of an address.
type from struct {
	net.Conn
	addr   netip.AddrPort
	closed bool
}

func (c *from) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(c.addr) }
func (c *from) Close() error                     { c.closed = true; return nil }
func (c *from) Write(p []byte) (int, error)      { return len(p), nil }
func (c *from) SetWriteDeadline(time.Time) error { return nil }

// connect accepts a connection. It was silent for as long as the number `age` says.
func (c *crowd) connect(addr string, age int) (net.Conn, *from) {
	c.Helper()
	conn := &from{addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 1)}
	c.next <- conn
	accepted, err := c.Accept()
	if err != nil {
		c.Fatal(err)
	}
	accepted.(*fairConn).last.Store(int64(1_000_000 - age))
	return accepted, conn
}

func (c *crowd) wantAtMost(n int) {
	c.Helper()
	sum := 0
	for _, own := range c.conns {
		sum += len(own)
	}
	if sum > n || sum != c.all {
		c.Errorf("got %d connections, counted as %d, want %d at most", sum, c.all, n)
	}
}

// Many addresses with one connection each have no more than mostOfAll together, and those that
// were silent for longest are replaced.
func TestConnectionsOfManyAddresses(t *testing.T) {
	c := newCrowd(t, &Authenticator{})
	busy, honest := c.connect("192.0.2.1", 0)
	_, idle := c.connect("192.0.2.1", 900_000)
	for i := range mostOfAll + 500 {
		c.connect(fmt.Sprintf("10.0.%d.%d", i/250, i%250), 500_000-i)
		if _, err := busy.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	c.wantAtMost(mostOfAll)
	if honest.closed || !idle.closed {
		t.Errorf("closed: a connection in use %v, one that was silent for longest %v; want only that", honest.closed, idle.closed)
	}
	busy.Close()
	busy.Close() // counts once
	c.wantAtMost(mostOfAll - 1)
}

// Addresses that use all of their connections lose them first. A trusted proxy may have many.
func TestConnectionsOfGreedyAddresses(t *testing.T) {
	c := newCrowd(t, &Authenticator{trusted: []netip.Prefix{netip.MustParsePrefix("172.16.0.1/32")}})
	var kept []*from
	for i := range 500 {
		_, conn := c.connect("172.16.0.1", 900_000+i)
		kept = append(kept, conn)
	}
	for range 3 {
		_, conn := c.connect("192.0.2.1", 950_000)
		kept = append(kept, conn)
	}
	for i := range 20 * mostOfAddress {
		c.connect(fmt.Sprintf("10.0.0.%d", i/mostOfAddress), 500_000-i)
	}
	c.wantAtMost(mostOfAll)
	for _, conn := range kept {
		if conn.closed {
			t.Fatalf("a connection of %s was closed, which has few of those that it may have", conn.addr)
		}
	}
}
