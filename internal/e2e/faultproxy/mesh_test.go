package faultproxy_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// meshed is two servers, a mesh in front of them and a client of each.
func meshed(t *testing.T) (m *faultproxy.Mesh, addrs []string, clients []*client) {
	t.Helper()
	addrs = []string{redistest.Start(t).Addr(), redistest.Start(t).Addr()}
	m = faultproxy.StartMesh(t, addrs)
	for _, addr := range addrs {
		clients = append(clients, dial(t, m.Proxy(addr)))
	}
	return m, addrs, clients
}

func TestMeshRoutesEachAddress(t *testing.T) {
	m, addrs, clients := meshed(t)
	clients[0].send("SET", "k", "first")
	clients[0].want("+OK\r\n")
	clients[1].send("GET", "k")
	clients[1].want("$-1\r\n")
	routes := m.Routes()
	for _, addr := range addrs {
		if routes[addr] != m.Proxy(addr).Addr() {
			t.Errorf("got the route %q from %s, want %s", routes[addr], addr, m.Proxy(addr).Addr())
		}
	}
	if len(routes) != 2 || len(m.Proxies()) != 2 || m.Proxy("127.0.0.1:1") != nil {
		t.Errorf("got routes %v and %d proxies, want two of each", routes, len(m.Proxies()))
	}
}

func TestMeshFaultsMeetAllServers(t *testing.T) {
	m, addrs, clients := meshed(t)
	m.Latency(quiet)
	begin := time.Now()
	for _, c := range clients {
		c.send("PING")
	}
	for _, c := range clients {
		c.want("+PONG\r\n")
	}
	if got := time.Since(begin); got < quiet {
		t.Errorf("got the answers after %v, want at least %v", got, quiet)
	}
	m.Latency(0)
	m.Blackhole(true)
	for _, c := range clients {
		c.send("PING")
		c.wantSilence()
	}
	m.Blackhole(false)
	for _, c := range clients {
		c.want("+PONG\r\n")
	}
	m.RefuseNew()
	m.CutAll()
	for i, c := range clients {
		_ = c.wantEnd()
		if _, err := net.Dial("tcp", m.Proxy(addrs[i]).Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want refused", err)
		}
	}
	if err := m.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		c := dial(t, m.Proxy(addr))
		c.send("PING")
		c.want("+PONG\r\n")
	}
	m.Close()
	m.Close()
	if err := m.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v after Close, want ErrClosed", err)
	}
}
