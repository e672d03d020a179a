package rueidisconn

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Close also closes a connection that is made while the client is closed, which rueidis keeps
// forever.
func TestCloseEndsConnectionsThatComeLate(t *testing.T) {
	var slow atomic.Bool
	greeted, gate := make(chan struct{}), make(chan struct{})
	addr := serve(t, nil, func(command string) string {
		if strings.HasPrefix(command, "HELLO") && slow.CompareAndSwap(true, false) {
			close(greeted)
			<-gate
		}
		return ""
	})
	conns := make(chan *seenConn, 10)
	c, err := Open(t.Context(), "redis://"+addr, &Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		seen := &seenConn{Conn: conn, closed: make(chan struct{})}
		conns <- seen
		return seen, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	for len(conns) > 0 {
		_ = (<-conns).Conn.(*net.TCPConn).CloseRead() // those that are closed already do not mind
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	called := make(chan struct{})
	go func() {
		defer close(called)
		for ctx.Err() == nil && len(conns) == 0 {
			_, _ = c.Server(ctx)
		}
	}()
	select {
	case <-greeted:
	case <-called:
		t.Error("no second connection was made: this test tests nothing")
	}
	c.Close()
	close(gate)
	select {
	case <-(<-conns).closed:
	case <-time.After(10 * time.Second):
		t.Error("a connection that was made meanwhile is still open 10 s after Close")
	}
	cancel()
	<-called
}

// seenConn reports when it is closed.
type seenConn struct {
	net.Conn
	ended  atomic.Bool
	closed chan struct{}
}

func (c *seenConn) Close() error {
	if c.ended.CompareAndSwap(false, true) {
		close(c.closed)
	}
	return c.Conn.Close()
}
