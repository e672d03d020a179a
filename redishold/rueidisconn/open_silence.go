package rueidisconn

import (
	"errors"
	"fmt"
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
	until map[string]time.Time
}

func newSilentServers() *silentServers { return &silentServers{until: make(map[string]time.Time)} }

// check returns an error if the server at addr did not respond within the last silentFor.
func (s *silentServers) check(addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until[addr]) {
		return fmt.Errorf("dial %s: the server did not answer a moment ago", addr)
	}
	delete(s.until, addr)
	return nil
}

func (s *silentServers) note(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[addr] = time.Now().Add(silentFor)
}

// monitoredConn is a connection that calls the function `silent` if it is closed before
// anything was received. It is needed because a machine that hangs still accepts connections.
type monitoredConn struct {
	net.Conn
	received atomic.Bool
	silent   func()
}

// Read also records that something was received, or that the other side closed the
// connection.
func (l *monitoredConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.received.Load() && (n > 0 || err != nil && !timedOut(err)) {
		l.received.Store(true)
	}
	return n, err
}

func (l *monitoredConn) Close() error {
	if l.received.CompareAndSwap(false, true) {
		l.silent()
	}
	return l.Conn.Close()
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
