package faultproxy

import (
	"slices"
	"time"
)

// push hands an item to write. c.mu is held.
func (c *conn) push(it item) {
	it.due = time.Now().Add(time.Duration(c.p.latency.Load()))
	if it.gate != nil {
		c.gates = append(c.gates, it.gate)
	}
	c.gates = slices.DeleteFunc(c.gates, closed)
	if len(c.gates) > 0 {
		c.withhold(&it)
	}
	c.out = append(c.out, it)
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.notify <- struct{}{}:
	default:
	}
}

// write sends out to the client until nothing more can come. Once the client is
// gone the rest goes to the log.
func (c *conn) write() {
	gone := false
	for {
		it, ok := c.next()
		if !ok {
			return
		}
		if !gone && c.mayWrite(it) && !it.cut {
			if closed(c.forgotten) {
				continue
			}
			if _, err := c.client.Write([]byte(it.raw)); err == nil {
				continue
			}
		}
		gone = true
		c.withhold(&it)
		if it.cut {
			c.hangUp()
			if it.req != nil {
				it.req.rule.fire()
			}
		}
	}
}

// hangUp closes the connection for the client, but leaves to up what the client
// has sent before: a lost reply does not undo the requests behind it.
func (c *conn) hangUp() {
	_ = c.client.CloseWrite()
	_ = c.client.CloseRead() // up reads to the end of what has arrived
}

// mayWrite waits until the item's turn has come and reports whether the client
// is still there.
func (c *conn) mayWrite(it item) bool {
	if !c.wait(it.gate) {
		return false
	}
	if d := time.Until(it.due); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.dead:
			return false
		}
	}
	return c.wait(c.p.passing(&c.p.down))
}

func (c *conn) next() (item, bool) {
	for {
		c.mu.Lock()
		if len(c.out) > 0 {
			it := c.out[0]
			c.out = c.out[1:]
			c.mu.Unlock()
			return it, true
		}
		ended := c.ended
		c.mu.Unlock()
		if ended {
			return item{}, false
		}
		<-c.notify
	}
}

// lost logs a request that does not reach the server.
func (c *conn) lost(req *request) { c.p.record(Withheld{Command: req.cmd}) }

// withhold logs a reply that the client does not get, or not yet.
func (c *conn) withhold(it *item) {
	if it.req == nil || it.logged {
		return
	}
	it.logged = true
	w := Withheld{Command: it.req.cmd, Forwarded: !it.req.local}
	if w.Forwarded {
		w.Reply = it.raw
	}
	c.p.record(w)
}
