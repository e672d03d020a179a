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

// silentFor is for how long no connection is tried again to a server that gave no
// sign of life. With Sentinels rueidis tries the old master twice in a row for each
// Sentinel that still names it, and learns of no other master meanwhile.
const silentFor = 500 * time.Millisecond

// silences remembers which servers gave no sign of life when they were last tried.
type silences struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func newSilences() *silences { return &silences{until: make(map[string]time.Time)} }

// check returns an error if addr has just been silent.
func (s *silences) check(addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until[addr]) {
		return fmt.Errorf("dial %s: it gave no sign of life a moment ago", addr)
	}
	delete(s.until, addr)
	return nil
}

func (s *silences) note(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[addr] = time.Now().Add(silentFor)
}

// listened is a connection that reports when it is closed before anything was received:
// the other side of a machine that hangs still accepts.
type listened struct {
	net.Conn
	heard  atomic.Bool
	silent func()
}

// Read notes that something was received, or that the other side refused.
func (l *listened) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.heard.Load() && (n > 0 || err != nil && !timedOut(err)) {
		l.heard.Store(true)
	}
	return n, err
}

func (l *listened) Close() error {
	if l.heard.CompareAndSwap(false, true) {
		l.silent()
	}
	return l.Conn.Close()
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
