package faultproxy

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// A port stays that of its proxy while that refuses new connections: a proxy that is made
// meanwhile does not get it.
func TestRefusedPortIsNotTaken(t *testing.T) {
	p := Start(t, "127.0.0.1:1")
	if p.guard == nil {
		t.Skip("this system has no " + guardAddress)
	}
	_, text, _ := net.SplitHostPort(p.Addr())
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	p.RefuseNew()
	if _, _, err := take(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want the port in use", err)
	}
	if err := p.Accept(); err != nil {
		t.Error(err)
	}
	p.Close()
	ln, guard, err := take(port)
	if err != nil {
		t.Fatalf("the port of a proxy that was closed: %v", err)
	}
	_, _ = ln.Close(), guard.Close()
}
