package faultproxy

// chunk is how much of a raw connection is read at once, at most.
const chunk = 32 << 10

// upRaw forwards what the client sends. As with requests, what it has sent arrives
// after a black hole although the client may have gone since.
func (c *conn) upRaw() {
	defer func() {
		if !closed(c.forgotten) {
			_ = c.server.CloseWrite()
		}
	}()
	buf := make([]byte, chunk)
	for {
		n, err := c.client.Read(buf)
		if n > 0 {
			if !c.wait(c.p.passing(&c.p.up)) {
				return
			}
			if closed(c.forgotten) {
				continue
			}
			if _, err := c.server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// downRaw hands what the server sends to write.
func (c *conn) downRaw() {
	buf := make([]byte, chunk)
	for {
		n, err := c.server.Read(buf)
		if n > 0 {
			c.mu.Lock()
			c.push(item{raw: string(buf[:n]), cut: c.p.mute.Load()})
			c.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.wake()
}
