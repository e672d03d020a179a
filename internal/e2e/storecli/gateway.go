//go:build unix

package storecli

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gateway passes on what is sent to a server, of whatever protocol, until it freezes:
// then nothing arrives any more, on either side, and no side gets an error.
type gateway struct {
	listener      net.Listener
	network, addr string // of the server
	group         sync.WaitGroup

	mu     sync.Mutex
	frozen bool
	closed bool
	conns  map[net.Conn]bool
	thaw   chan struct{} // closed at the end, for what waits
}

// newGateway starts a gateway to a server, which ends with t.
func newGateway(t testing.TB, network, addr string) *gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{listener: listener, network: network, addr: addr, conns: map[net.Conn]bool{}, thaw: make(chan struct{})}
	g.group.Go(g.accept)
	t.Cleanup(g.close)
	return g
}

// address is where clients connect to.
func (g *gateway) address() string { return g.listener.Addr().String() }

// freeze has nothing arrive any more.
func (g *gateway) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = true
}

func (g *gateway) close() {
	g.mu.Lock()
	g.closed = true
	close(g.thaw)
	for conn := range g.conns {
		conn.Close()
	}
	g.mu.Unlock()
	g.listener.Close()
	g.group.Wait()
}

func (g *gateway) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(g.network, g.addr)
		if err != nil {
			client.Close()
			continue
		}
		if !g.keep(client, server) {
			return
		}
		g.group.Go(func() { g.pass(server, client) })
		g.group.Go(func() { g.pass(client, server) })
	}
}

// keep remembers connections that are to be closed at the end. It reports false, and
// closes them, if that has come.
func (g *gateway) keep(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range conns {
		if g.closed {
			conn.Close()
		}
		g.conns[conn] = true
	}
	return !g.closed
}

// pass copies what comes from one side to the other, until either ends.
func (g *gateway) pass(to io.WriteCloser, from io.ReadCloser) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		g.mu.Lock()
		frozen := g.frozen
		g.mu.Unlock()
		if frozen {
			<-g.thaw // neither the bytes nor the end of the connection arrive
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}
