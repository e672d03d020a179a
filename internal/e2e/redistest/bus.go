package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// CuttableBus makes Isolate possible: the nodes of a cluster reach each other
// through relays. Other deployments ignore it.
func CuttableBus() Option { return func(c *config) { c.relays = true } }

// Isolate cuts a node of a cluster off from all other nodes, and the replicas from
// it, as a split of the network does; clients still reach it. The others replace it
// if it is a master. It needs the option CuttableBus. Rejoin and Heal undo it.
func (d *Deployment) Isolate(s *Server) {
	d.helper()
	if err := d.isolate(s); err != nil {
		d.fail(err)
	}
}

// Rejoin undoes Isolate. It does not wait.
func (d *Deployment) Rejoin(s *Server) {
	d.helper()
	if err := d.rejoin(s); err != nil {
		d.fail(err)
	}
}

func (f *fleet) isolate(s *Server) error {
	if f.bus == nil {
		return errors.New("isolate a node: the deployment was started without CuttableBus")
	}
	me, err := s.myself()
	if err != nil {
		return err
	}
	f.bus.cut(me.id)
	return s.admit(false)
}

func (f *fleet) rejoin(s *Server) error {
	if f.bus != nil {
		f.bus.mend()
	}
	return s.admit(true)
}

// bus is the links between the nodes of a cluster, each by way of a relay.
type bus struct {
	stop   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	relays   []net.Listener
	isolated string // the id of a node, or ""
	links    map[*busLink]struct{}
}

// busLink is a connection between two nodes.
type busLink struct {
	from, to string // their ids
	ends     []net.Conn
}

func newBus() *bus {
	b := &bus{links: map[*busLink]struct{}{}}
	b.stop, b.cancel = context.WithCancel(context.Background())
	return b
}

// relay listens for a node whose own bus is at addr, and returns the port.
func (b *bus) relay(id, addr string) (int, error) {
	port, err := freePort(22000, 32000)
	if err != nil {
		return 0, err
	}
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", child.ErrPortTaken, err)
	}
	b.mu.Lock()
	b.relays = append(b.relays, ln)
	b.mu.Unlock()
	b.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			b.work.Go(func() { b.carry(conn, id, addr) })
		}
	})
	return port, nil
}

// The header of each message on the bus: its sender stands behind 40 bytes of
// signature, length, version, type and epochs.
const (
	busSender = 40
	busHeader = busSender + 40
)

// carry passes on what two nodes say, as long as it may.
func (b *bus) carry(conn net.Conn, to, addr string) {
	l := &busLink{to: to, ends: []net.Conn{conn}}
	defer l.close()
	defer context.AfterFunc(b.stop, func() { _ = conn.Close() })()
	header := make([]byte, busHeader)
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	l.from = string(header[busSender:])
	peer, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	l.ends = append(l.ends, peer)
	if !b.admit(l) {
		return
	}
	defer b.forget(l)
	if _, err := peer.Write(header); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, peer)
		l.close()
	}()
	_, _ = io.Copy(peer, conn)
	l.close()
	<-done
}

func (b *bus) admit(l *busLink) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop.Err() != nil || b.isolated != "" && (l.from == b.isolated || l.to == b.isolated) {
		return false
	}
	b.links[l] = struct{}{}
	return true
}

func (b *bus) forget(l *busLink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.links, l)
}

// cut ends the links of a node, and lets it make no others.
func (b *bus) cut(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isolated = id
	for l := range b.links {
		if l.from == id || l.to == id {
			l.close()
		}
	}
}

func (b *bus) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isolated = ""
}

// close ends all links and waits for their goroutines.
func (b *bus) close() {
	b.cancel()
	b.mu.Lock()
	for _, ln := range b.relays {
		_ = ln.Close()
	}
	for l := range b.links {
		l.close()
	}
	b.mu.Unlock()
	b.work.Wait()
}

func (l *busLink) close() {
	for _, end := range slices.Clone(l.ends) {
		_ = end.Close()
	}
}
