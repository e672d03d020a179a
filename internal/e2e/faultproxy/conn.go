package faultproxy

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
)

// conn is one client's connection and its counterpart at the server. Three
// goroutines serve it: up forwards requests, down reads replies, and down's
// replies wait in out for write, so that a withheld reply does not keep the next
// one from being read and logged.
type conn struct {
	p              *Proxy
	client, server *net.TCPConn
	cutOnce        sync.Once
	dead           chan struct{} // closed when a fault has cut the client off
	forgetOnce     sync.Once
	forgotten      chan struct{} // closed when nothing passes any more, and no side is notified

	mu     sync.Mutex
	queue  pairing
	out    []item
	gates  []<-chan struct{} // of the replies held in out
	ended  bool              // nothing will be added to out
	notify chan struct{}     // capacity 1: out or ended has changed
}

// request is one request on its way.
type request struct {
	cmd    []string
	raw    string
	rule   *Rule // that fired on it, or nil
	local  bool  // answered here, not by the server
	acted  bool  // its rule has acted on the reply
	awaits int   // confirmations of a subscription still to come; 0 before the first
}

// item is one value on its way to the client.
type item struct {
	raw    string
	req    *request        // nil for a push message
	gate   <-chan struct{} // not to be written before it is closed; nil for at once
	due    time.Time       // not to be written before
	cut    bool            // to be thrown away, and the client's connection with it
	logged bool
}

func newConn(p *Proxy, client, server *net.TCPConn) *conn {
	return &conn{p: p, client: client, server: server, dead: make(chan struct{}), forgotten: make(chan struct{}), notify: make(chan struct{}, 1)}
}

// run serves the connection until the server's side has ended and everything
// read from it has been dealt with.
func (c *conn) run() {
	var wg sync.WaitGroup
	if c.p.raw {
		wg.Go(c.upRaw)
		wg.Go(c.downRaw)
	} else {
		wg.Go(c.up)
		wg.Go(c.down)
	}
	c.write()
	if closed(c.forgotten) { // the end of one side is no news for the other
		c.wait(c.p.stop.Done())
	}
	c.kill()
	wg.Wait()
}

// cut closes the client's side. The server sees the end of the stream, and down
// goes on to read what it still answers, for the log.
func (c *conn) cut() {
	c.cutOnce.Do(func() {
		close(c.dead)
		_ = c.client.Close()
		_ = c.server.CloseWrite()
	})
}

// forget makes the connection silent for good.
func (c *conn) forget() { c.forgetOnce.Do(func() { close(c.forgotten) }) }

// kill closes both sides at once.
func (c *conn) kill() {
	c.cut()
	_ = c.server.Close()
}

// reset makes both sides see a reset.
func (c *conn) reset() {
	_ = c.client.SetLinger(0)
	_ = c.server.SetLinger(0)
	_ = c.server.Close()
	c.cut()
}

func (c *conn) up() {
	// a client that goes away leaves what it has sent: the server shall see the
	// end of the stream behind it
	defer func() { _ = c.server.CloseWrite() }()
	r := bufio.NewReader(c.client)
	mute := false
	for {
		raw, err := readValue(r)
		if err != nil {
			return
		}
		cmd, err := proto.ReadStrings(raw)
		if err != nil || len(cmd) == 0 {
			c.cut()
			return
		}
		req := &request{cmd: cmd, raw: raw}
		if mute {
			c.lost(req)
			continue
		}
		req.rule = c.p.claim(cmd)
		if mute = req.does(drop); mute {
			c.lost(req)
			req.rule.fire()
			continue
		}
		if !c.forward(req) {
			return
		}
	}
}

func (r *request) does(k kind) bool { return r.rule != nil && r.rule.action.kind == k }

// forward does what the request's rule wants and sends it to the server. It
// reports whether the connection can go on.
func (c *conn) forward(req *request) bool {
	switch {
	case req.does(delay):
		req.rule.fire()
		if !c.delay(req.rule) {
			c.lost(req)
			return false
		}
	case req.does(cutBefore):
		c.lost(req)
		c.cut()
		req.rule.fire()
		return false
	}
	if !c.wait(c.p.passing(&c.p.up)) {
		c.lost(req)
		return false
	}
	switch {
	case req.does(reset):
		c.lost(req)
		_, _ = c.server.Write([]byte(req.raw[:len(req.raw)/2]))
		c.reset()
		req.rule.fire()
		return false
	case req.does(answer):
		req.local = true
		ok := c.expect(req)
		req.rule.fire()
		return ok
	}
	if !c.expect(req) {
		return false
	}
	_, err := c.server.Write([]byte(req.raw))
	return err == nil
}

func (c *conn) delay(r *Rule) bool {
	if r.action.delay == 0 {
		return c.wait(r.released)
	}
	timer := time.NewTimer(r.action.delay)
	defer timer.Stop()
	select {
	case <-r.released:
	case <-timer.C:
	case <-c.dead:
		return false
	}
	return true
}

// wait waits for ch to close, nil meaning not at all, and reports whether the
// client is still there.
func (c *conn) wait(ch <-chan struct{}) bool {
	if ch == nil {
		return true
	}
	if closed(c.dead) {
		return false
	}
	select {
	case <-ch:
		return true
	case <-c.dead:
		return false
	}
}

func (c *conn) down() {
	r := bufio.NewReader(c.server)
	for {
		raw, err := readValue(r)
		if err != nil {
			break
		}
		c.reply(raw)
	}
	c.mu.Lock()
	rest := c.queue.pending
	c.queue.pending = nil
	c.ended = true
	c.mu.Unlock()
	for _, req := range rest {
		c.p.record(Withheld{Command: req.cmd, Forwarded: !req.local})
	}
	c.wake()
}

// reply takes one value from the server.
func (c *conn) reply(raw string) {
	c.mu.Lock()
	req, last := c.queue.pair(raw)
	c.mu.Unlock()

	it := item{raw: raw, req: req}
	if req != nil && req.rule != nil && !c.excuse(req, raw) {
		c.act(req, &it)
	}

	c.mu.Lock()
	c.push(it)
	if last {
		c.queue.pop()
		c.answerLocally()
	}
	c.mu.Unlock()
	if it.gate != nil { // after push, which has logged it
		req.rule.fire()
	}
}

// excuse takes the rule from a request that was not executed, as the server did not
// know its script, if the rule is for one that was.
func (c *conn) excuse(req *request, raw string) bool {
	kind := req.rule.action.kind
	if kind != cutAfter && kind != hold || req.acted || !strings.HasPrefix(raw, "-NOSCRIPT") {
		return false
	}
	req.rule.giveBack()
	req.rule = nil
	return true
}

// act does what the request's rule wants with the reply.
func (c *conn) act(req *request, it *item) {
	first := !req.acted
	req.acted = true
	if first {
		req.rule.answer()
	}
	switch req.rule.action.kind {
	case hold:
		if first {
			it.gate = req.rule.released
		}
	case cutAfter:
		it.cut = first
	case rewrite:
		it.raw = req.rule.action.rewrite(it.raw)
		if first {
			req.rule.fire()
		}
	}
}

// expect notes that req is about to be sent to the server, or answered here. It
// reports whether the server's side is still there.
func (c *conn) expect(req *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		c.lost(req)
		return false
	}
	c.queue.pending = append(c.queue.pending, req)
	c.answerLocally()
	return true
}

// answerLocally answers the requests at the head of the queue that are not the
// server's to answer. c.mu is held.
func (c *conn) answerLocally() {
	for req := c.queue.head(); req != nil && req.local; req = c.queue.head() {
		c.push(item{raw: req.rule.action.reply(req.cmd), req: req})
		c.queue.pop()
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
