// Package faultproxy puts faults between a Redis client and its server, aimed
// at single commands.
//
// A Proxy understands RESP2 and RESP3. On each connection it pairs requests with
// replies in order, so that a Rule can lose, hold or change exactly the reply to
// one script while the protocol stays possible: whatever a fault withholds,
// everything behind it on that connection waits too, as it would on a real link.
//
// It does not understand MONITOR, CLIENT REPLY, inline commands and TLS.
//
// RunRaw makes a Proxy for any other protocol. It knows no requests: rules have no
// effect there, and Withheld is empty.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Proxy forwards connections to one server. Its methods may be called from
// several goroutines at once.
type Proxy struct {
	target string
	addr   string
	stop   context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	guard   net.Listener // see take; nil where there is no such address
	latency atomic.Int64
	raw     bool        // the protocol is not Redis': bytes pass as they come
	mute    atomic.Bool // raw: what the server sends next is lost, and the connection with it

	mu    sync.Mutex
	ln    net.Listener // nil while new connections are refused
	rules []*Rule      // replaced, never changed
	conns map[*conn]struct{}
	log   []Withheld
	up    way // of requests
	down  way // of replies
}

// way is one direction of the links.
type way struct {
	flow chan struct{} // closed while data passes; open in a black hole
	hole bool
}

// set begins a black hole, or ends it.
func (w *way) set(on bool) {
	switch {
	case on && !w.hole:
		w.flow = make(chan struct{})
	case !on && w.hole:
		close(w.flow)
	}
	w.hole = on
}

// Withheld is one request whose reply was withheld from its client or lost, or
// which never reached the server.
type Withheld struct {
	Command   []string
	Forwarded bool   // it may have reached the server: all of it was sent, or an attempt was made
	Reply     string // what the server answered, raw; "" if it did not
}

// Start runs a proxy for t in front of the server at serverAddr ("host:port") and
// closes it when t ends.
func Start(t testing.TB, serverAddr string) *Proxy {
	t.Helper()
	p, err := Run(serverAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Run runs a proxy outside of a test. The caller must call Close.
func Run(serverAddr string) (*Proxy, error) { return run(serverAddr, false) }

// RunRaw is Run for a server whose protocol is any over TCP.
func RunRaw(serverAddr string) (*Proxy, error) { return run(serverAddr, true) }

func run(serverAddr string, raw bool) (*Proxy, error) {
	ln, guard, err := listen()
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: serverAddr, addr: ln.Addr().String(), guard: guard, raw: raw, conns: make(map[*conn]struct{}), up: passable(), down: passable()}
	p.stop, p.cancel = context.WithCancel(context.Background())
	p.serve(ln)
	return p, nil
}

func passable() way {
	w := way{flow: make(chan struct{}), hole: true}
	w.set(false)
	return w
}

// listen takes a port below those that systems use for outgoing connections.
func listen() (ln, guard net.Listener, err error) {
	const low, high = 12000, 32000
	for range 200 {
		if ln, guard, err = take(low + rand.IntN(high-low)); err == nil {
			return ln, guard, nil
		}
	}
	return nil, nil, fmt.Errorf("no free port found on 127.0.0.1: %w", err)
}

// guardAddress is an address of the loopback that a proxy listens on as long as it has its port, so
// that no other proxy takes the port while the first one refuses new connections. Nobody connects to it.
const guardAddress = "127.0.0.2"

// take listens on a port, unless another proxy has it. The guard is nil on systems that do not have
// guardAddress.
func take(port int) (ln, guard net.Listener, err error) {
	text := strconv.Itoa(port)
	guard, err = net.Listen("tcp", net.JoinHostPort(guardAddress, text))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nil, err
	}
	ln, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", text))
	if err != nil && guard != nil {
		_ = guard.Close()
	}
	return ln, guard, err
}

// Addr returns the address for clients to dial, as "host:port".
func (p *Proxy) Addr() string { return p.addr }

// Close cuts everything and waits until the proxy's goroutines have ended. It
// may be called more than once.
func (p *Proxy) Close() {
	p.cancel()
	p.RefuseNew()
	if p.guard != nil {
		_ = p.guard.Close()
	}
	for _, c := range p.open() {
		c.kill()
	}
	p.work.Wait()
}

// On adds a rule for requests that arrive from now on. Without a condition when, it fires
// on the first of them that matches. Of several rules that match a request, the first added
// that still has to fire does.
func (p *Proxy) On(match Match, action Action, when ...When) *Rule {
	r := newRule(match, action, when)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(slices.Clip(p.rules), r)
	return r
}

// RefuseNew closes the listener: new connections are refused, those that are
// open go on.
func (p *Proxy) RefuseNew() {
	p.mu.Lock()
	ln := p.ln
	p.ln = nil
	p.mu.Unlock()
	if ln != nil {
		_ = ln.Close()
	}
}

// Accept accepts new connections again after RefuseNew, on the same port.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	open := p.ln != nil
	p.mu.Unlock()
	switch {
	case p.stop.Err() != nil:
		return net.ErrClosed
	case open:
		return nil
	}
	ln, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.serve(ln)
	return nil
}

// Blackhole makes everything silent: connections stay open and new ones are
// accepted, but nothing passes in either direction. Blackhole(false) lets pass
// what has waited, in order, even what was sent by clients that have gone since.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up.set(on)
	p.down.set(on)
}

// BlackholeRequests is Blackhole of what clients send: replies and push messages
// arrive.
func (p *Proxy) BlackholeRequests(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up.set(on)
}

// BlackholeReplies is Blackhole of what the server sends: it does what it is asked, and
// nobody is notified.
func (p *Proxy) BlackholeReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down.set(on)
}

// CutAll closes the connections of all clients, and their counterparts at the
// server. Requests not forwarded yet are lost, replies that still arrive go to
// the log.
func (p *Proxy) CutAll() {
	for _, c := range p.open() {
		c.cut()
	}
}

// ForgetAll has every open connection forgotten, as by a device that drops idle ones, or
// by the loss of a machine: nothing passes any more, and neither side is notified. New
// connections pass. It returns how many were open. It is for a Proxy of RunRaw.
func (p *Proxy) ForgetAll() int {
	all := p.open()
	for _, c := range all {
		c.forget()
	}
	return len(all)
}

// HangUpAll closes the connections to all clients, as a client does that gives
// up: what they have sent still goes on to the server, what a rule delays
// included, and the replies go to the log.
func (p *Proxy) HangUpAll() {
	for _, c := range p.open() {
		c.hangUp()
	}
}

// Latency makes every reply and push message arrive d later than it would; 0
// ends it. It does not slow a pipeline down.
func (p *Proxy) Latency(d time.Duration) { p.latency.Store(int64(d)) }

// LoseReplies loses, on each connection, what the server sends next, and the
// connection with it: the server has done what it was asked, and no client gets an answer. It
// is for a Proxy of RunRaw, and on until it is turned off.
func (p *Proxy) LoseReplies(on bool) { p.mute.Store(on) }

// Withheld returns, in the order in which it happened, every request whose reply
// was withheld or lost, or that never reached the server. A reply that was
// released later stays in it. It does not know of bytes that the proxy had not
// read.
func (p *Proxy) Withheld() []Withheld {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

func (p *Proxy) record(w Withheld) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, w)
}

func (p *Proxy) open() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	cs := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		cs = append(cs, c)
	}
	return cs
}

// passing returns a channel that is closed while data passes in a direction of p.
func (p *Proxy) passing(w *way) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.flow
}

// claim returns the rule that fires on cmd, or nil.
func (p *Proxy) claim(cmd []string) *Rule {
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	for _, r := range rules {
		if r.claim(cmd) {
			return r
		}
	}
	return nil
}

func (p *Proxy) serve(ln net.Listener) {
	p.mu.Lock()
	p.ln = ln
	p.mu.Unlock()
	p.work.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.handle(nc) })
		}
	})
}

func (p *Proxy) handle(client net.Conn) {
	defer func() { _ = client.Close() }()
	var d net.Dialer
	server, err := d.DialContext(p.stop, "tcp", p.target)
	if err != nil {
		return
	}
	c := newConn(p, client.(*net.TCPConn), server.(*net.TCPConn))
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	if p.stop.Err() != nil { // Close may have looked before c was there
		c.kill()
	}
	c.run()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}
