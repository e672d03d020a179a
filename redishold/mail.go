package redishold

// mail are the messages on the channel of a client, which many owners share, by
// owner. The mutex of topics guards it.
type mail struct {
	boxes  map[string]*mailbox
	strays []string // owners with a message for which nobody waits, or did not yet
}

// mailbox is what one owner was told.
type mailbox struct {
	waits   bool          // a waiter is there
	version uint64        // of the last message; 0 before that
	changed chan struct{} // closed when version changes, and replaced
	grant   fairGrant     // of the last message
}

// straysMost bounds the messages that are kept for owners who do not wait yet:
// one may arrive before the answer to the Try that it follows.
const straysMost = 1024

// box returns the mailbox of owner.
func (m *mail) box(owner string) *mailbox {
	b := m.boxes[owner]
	if b == nil {
		b = &mailbox{changed: make(chan struct{})}
		if m.boxes == nil {
			m.boxes = make(map[string]*mailbox)
		}
		m.boxes[owner] = b
	}
	return b
}

// deliver puts a message into the mailbox of owner.
func (m *mail) deliver(owner string, version uint64, grant fairGrant) {
	b := m.box(owner)
	b.version, b.grant = version, grant
	close(b.changed)
	b.changed = make(chan struct{})
	if b.waits {
		return
	}
	if m.strays = append(m.strays, owner); len(m.strays) > straysMost {
		if oldest := m.boxes[m.strays[0]]; oldest != nil && !oldest.waits {
			delete(m.boxes, m.strays[0])
		}
		m.strays = m.strays[1:]
	}
}

// stamp returns a version that everything heard from now on exceeds, 0 if
// nothing is heard on channel.
func (ts *topics) stamp(channel string) uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil && t.state == topicLive {
		return ts.last
	}
	return 0
}

// joinFor is join for one of the owners that share channel.
func (ts *topics) joinFor(channel, owner string) *topic {
	t := ts.join(channel)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.shared = true
	t.mail.box(owner).waits = true
	return t
}

// leaveFor is leave for one of the owners that share t.
func (ts *topics) leaveFor(t *topic, owner string) {
	ts.mu.Lock()
	delete(t.mail.boxes, owner)
	ts.mu.Unlock()
	ts.leave(t)
}

// lookFor is look for one of the owners that share t: mine is closed when it was
// told something, all when everybody may have missed something.
func (ts *topics) lookFor(t *topic, owner string, ahead uint64) (all, mine <-chan struct{}, done bool, err error) {
	all, _, err = ts.look(t, ahead)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	box := t.mail.box(owner)
	done = err == nil && t.state == topicLive && max(t.version, box.version) > ahead
	return all, box.changed, done, err
}

// grantOf returns the last grant of which owner was told, none if the last message
// was something else.
func (ts *topics) grantOf(t *topic, owner string) fairGrant {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.mail.box(owner).grant
}
