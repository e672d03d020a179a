package serve

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mostOfAddress = 128  // the most connections of one address
	mostOfProxy   = 1024 // the most connections of a trusted proxy, through which many users connect
	mostOfAll     = 2048 // the most connections of all addresses
	writeBuffer   = 64 << 10
)

// fairListener bounds the connections of each address, and those of all addresses, so that
// nobody can use all file descriptors and all memory. Beyond the bound of an address, a new
// connection replaces the one with the longest silence among the connections of its address. A
// client that never reads is silent, so other users at the same address can still connect.
// Beyond the bound of all addresses, it replaces the one with the longest silence among those of
// the address that has most connections in relation to its bound.
type fairListener struct {
	net.Listener
	most func(peer netip.Addr) int

	mu    sync.Mutex
	all   int // the number of connections
	conns map[netip.Addr][]*fairConn
}

// newFairListener bounds the connections of l.
func newFairListener(l net.Listener, most func(netip.Addr) int) *fairListener {
	return &fairListener{Listener: l, most: most, conns: map[netip.Addr][]*fairConn{}}
}

// Accept returns the next connection.
func (l *fairListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(writeBuffer) // the system would keep megabytes for a client that never reads
	}
	c := &fairConn{Conn: conn, of: l, peer: peerOf(conn.RemoteAddr().String())}
	c.last.Store(time.Now().UnixNano())
	if silent := l.add(c); silent != nil {
		silent.Close()
	}
	return c, nil
}

// add counts c. It returns the connection that c replaces, or nil.
func (l *fairListener) add(c *fairConn) (silent *fairConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.conns[c.peer]) >= l.most(c.peer):
		silent = slices.MinFunc(l.conns[c.peer], longerSilent)
	case l.all >= mostOfAll:
		silent = l.silentOfMost()
	}
	if silent != nil {
		l.drop(silent)
	}
	l.conns[c.peer] = append(l.conns[c.peer], c)
	l.all++
	return silent
}

func longerSilent(a, b *fairConn) int { return cmp.Compare(a.last.Load(), b.last.Load()) }

// silentOfMost returns the connection with the longest silence among those of the address that
// uses the largest part of its bound. If several addresses use the same part, it chooses among
// all of them.
func (l *fairListener) silentOfMost() (silent *fairConn) {
	largest := 0.0
	for peer, own := range l.conns {
		part := float64(len(own)) / float64(l.most(peer))
		if part < largest {
			continue
		}
		if first := slices.MinFunc(own, longerSilent); part > largest || longerSilent(first, silent) < 0 {
			largest, silent = part, first
		}
	}
	return silent
}

func (l *fairListener) remove(c *fairConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(c)
}

// drop removes c from the connections, unless that has been done already. The caller holds l.mu.
func (l *fairListener) drop(c *fairConn) {
	own := l.conns[c.peer]
	at := slices.Index(own, c)
	if at < 0 {
		return
	}
	l.all--
	if l.conns[c.peer] = slices.Delete(own, at, at+1); len(own) == 1 {
		delete(l.conns, c.peer)
	}
}

// fairConn is a connection that a fairListener counts.
type fairConn struct {
	net.Conn
	of   *fairListener
	peer netip.Addr
	last atomic.Int64 // when bytes were last read or written
}

// Read reads from the connection, and remembers the time.
func (c *fairConn) Read(p []byte) (int, error) { return c.heard(c.Conn.Read(p)) }

// Write writes to the connection, and remembers the time.
func (c *fairConn) Write(p []byte) (int, error) { return c.heard(c.Conn.Write(p)) }

// heard remembers the present time if n is not 0, because the connection is then not silent.
// It returns its parameters.
func (c *fairConn) heard(n int, err error) (int, error) {
	if n > 0 {
		c.last.Store(time.Now().UnixNano())
	}
	return n, err
}

// Close closes the connection, which no longer counts.
func (c *fairConn) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// peerOf returns the address under which the bounds count a client. For an IPv6 client it is
// the network of 64 bits, because one client has all addresses of that network. The parameter
// `remote` is "host:port".
func peerOf(remote string) netip.Addr {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return counted(peer.Addr())
}

func counted(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		network, _ := ip.Prefix(64) // never fails for an IPv6 address
		return network.Addr()
	}
	return ip
}
