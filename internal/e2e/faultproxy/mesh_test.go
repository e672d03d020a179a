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

// What a mesh does it does to all servers.
func TestMeshFaultsMeetAllServers(t *testing.T) {
	addrs := []string{redistest.Start(t).Addr(), redistest.Start(t).Addr()}
	m := faultproxy.StartMesh(t, addrs)
	clients := []*client{dial(t, m.Proxy(addrs[0])), dial(t, m.Proxy(addrs[1]))}
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
