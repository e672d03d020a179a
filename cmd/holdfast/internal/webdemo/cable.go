package webdemo

import (
	"context"
	"errors"
	"net"
	"sync"
)

var errUnplugged = errors.New("the network is cut")

// cable is the network between a client and its server, which can be cut.
type cable struct {
	mu    sync.Mutex
	cut   bool
	conns map[*plug]struct{}
}

// plug is a connection through a cable.
type plug struct {
	net.Conn
	cable *cable
}

// Close unplugs and closes the connection.
func (p *plug) Close() error {
	p.cable.forget(p)
	return p.Conn.Close()
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.isCut() {
		return nil, errUnplugged
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p := &plug{Conn: conn, cable: c}
	if !c.remember(p) {
		conn.Close()
		return nil, errUnplugged
	}
	return p, nil
}

// remember returns false if the cable was cut meanwhile.
func (c *cable) remember(p *plug) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return false
	}
	if c.conns == nil {
		c.conns = map[*plug]struct{}{}
	}
	c.conns[p] = struct{}{}
	return true
}

func (c *cable) forget(p *plug) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, p)
}

func (c *cable) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// set cuts the network, which breaks all connections, or fixes it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	c.cut = cut
	var broken []*plug
	for p := range c.conns {
		if cut {
			broken = append(broken, p)
		}
	}
	c.mu.Unlock()
	for _, p := range broken {
		p.Close()
	}
}
