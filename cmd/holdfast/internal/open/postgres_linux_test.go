package open

import (
	"net"
	"syscall"
	"testing"
)

// TestPostgresKeepAlive looks at what the system does with a connection that is silent.
func TestPostgresKeepAlive(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p, err := parsePostgres(Request{Access: Access{URL: "postgres://test@" + ln.Addr().String() + "/test"}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := p.config.ConnConfig.DialFunc(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var idle int
	failed := raw.Control(func(fd uintptr) {
		idle, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
	})
	if failed != nil || err != nil || idle != 10 {
		t.Errorf("got %d s, %v, %v, want a first keepalive after 10 s", idle, failed, err)
	}
}
