package rueidisconn

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// silentFor is how long a server that did not respond is not dialled again. With Sentinels,
// rueidis dials the old master twice in a row for each Sentinel that still names it, and does
// not learn of another master meanwhile.
const silentFor = 500 * time.Millisecond

// silentServers remembers the servers that did not respond when they were dialled last.
type silentServers struct {
	mu    sync.Mutex
	until map[string]time.Time // nil if no server is to be remembered
}

// has reports whether the server at addr did not respond within the last silentFor.
func (s *silentServers) has(addr string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[addr])
}

func (s *silentServers) add(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until != nil {
		s.until[addr] = time.Now().Add(silentFor)
	}
}

// clientConn is a connection of a client. It calls the function `silent` if it is closed before
// anything was received: a machine that hangs still accepts connections.
type clientConn struct {
	net.Conn
	received atomic.Bool
	silent   func()
	closed   *atomic.Int64 // transport.closed
	forget   func() bool   // ends the wait for the end of transport.open
}

// Read also records that something was received, or that the other side closed the
// connection.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.received.Load() && (n > 0 || err != nil && !timedOut(err)) {
		c.received.Store(true)
	}
	return n, err
}

func (c *clientConn) Close() error {
	c.forget()
	c.closed.Add(1)
	if c.received.CompareAndSwap(false, true) {
		c.silent()
	}
	return c.Conn.Close()
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
