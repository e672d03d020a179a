package waiting

// mailboxes has the last message for each owner on the channel of one client, because all owners
// of that client share the channel. The mutex of Topics guards it.
type mailboxes struct {
	boxes  map[string]*inbox
	unread []string // owners that got a message while they had no waiter
}

// inbox has the last message for one owner.
type inbox struct {
	waiting bool          // the owner has a waiter
	version uint64        // the version of the last message; 0 if there was no message
	changed chan struct{} // closed when version changes, and replaced
	message string        // the last message
}

// maxUnread is the maximal number of messages that are kept for owners without a waiter. They
// are kept because a message may arrive before the reply to the Try after which the owner
// begins to wait.
const maxUnread = 1024

func (m *mailboxes) box(owner string) *inbox {
	b := m.boxes[owner]
	if b == nil {
		b = &inbox{changed: make(chan struct{})}
		if m.boxes == nil {
			m.boxes = make(map[string]*inbox)
		}
		m.boxes[owner] = b
	}
	return b
}

func (m *mailboxes) deliver(owner string, version uint64, message string) {
	b := m.box(owner)
	b.version, b.message = version, message
	close(b.changed)
	b.changed = make(chan struct{})
	if b.waiting {
		return
	}
	if m.unread = append(m.unread, owner); len(m.unread) > maxUnread {
		if oldest := m.boxes[m.unread[0]]; oldest != nil && !oldest.waiting {
			delete(m.boxes, m.unread[0])
		}
		m.unread = m.unread[1:]
	}
}

// LastVersion returns the largest version that any channel has got. Every message that is
// received later gets a larger version. LastVersion returns 0 if the topic has no subscription.
func (ts *Topics) LastVersion(key Key) uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[key]; t != nil && t.state == Live {
		return ts.last
	}
	return 0
}
