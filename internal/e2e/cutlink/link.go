// Package cutlink makes connections that a test can cut.
package cutlink

import (
	"net"
	"os"
	"sync"
	"time"
)

// Link is what a client's connections go through. It can be cut: then nothing arrives,
// neither here nor there, and nobody is notified. The zero Link is whole.
type Link struct {
	mu  sync.Mutex
	cut chan struct{} // closed when it is whole again; nil while it is
}

// Dial returns a connection through the link, which dial makes. While the link is cut it
// waits, for timeout at most; 0 means no bound.
func (l *Link) Dial(timeout time.Duration, dial func() (net.Conn, error)) (net.Conn, error) {
	c := &linked{link: l, closed: make(chan struct{})}
	var until time.Time
	if timeout > 0 {
		until = time.Now().Add(timeout)
	}
	if err := c.pass(until); err != nil {
		return nil, err
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	c.Conn = conn
	return c, nil
}

// Cut cuts the link.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut = make(chan struct{})
	}
}

// Heal ends Cut: what was on its way arrives.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil {
		close(l.cut)
		l.cut = nil
	}
}

// linked is a connection through a link.
type linked struct {
	net.Conn
	link   *Link
	once   sync.Once
	closed chan struct{}

	mu          sync.Mutex
	read, write time.Time // deadlines
}

// pass waits while the link is cut, until the deadline; the zero one is none.
func (c *linked) pass(until time.Time) error {
	c.link.mu.Lock()
	cut := c.link.cut
	c.link.mu.Unlock()
	if cut == nil {
		return nil
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-cut:
		return nil
	case <-c.closed:
		return net.ErrClosed
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// Read reads what has come, when the link is whole.
func (c *linked) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	until := c.read
	c.mu.Unlock()
	if err := c.pass(until); err != nil {
		return 0, err
	}
	return n, err
}

// Write writes when the link is whole.
func (c *linked) Write(b []byte) (int, error) {
	c.mu.Lock()
	until := c.write
	c.mu.Unlock()
	if err := c.pass(until); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// SetReadDeadline bounds each Read after it, also while the link is cut.
func (c *linked) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.read = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline bounds each Write after it, also while the link is cut.
func (c *linked) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.write = t
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline bounds each Read and Write after it, also while the link is cut.
func (c *linked) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.read, c.write = t, t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

// Close closes the connection.
func (c *linked) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
