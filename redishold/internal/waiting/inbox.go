package waiting

// message are the messages on the channel of a client, which many owners share, by
// owner. The mutex of topics guards it.
type message struct {
	boxes  map[string]*inbox
	strays []string // owners with a message for which nobody waits, or did not yet
}

// inbox is what one owner was notified.
type inbox struct {
	waits   bool          // a waiter is there
	version uint64        // of the last message; 0 before that
	changed chan struct{} // closed when version changes, and replaced
	message string        // the last one
}

// straysMost bounds the messages that are kept for owners who do not wait yet:
// one may arrive before the answer to the Try that it follows.
const straysMost = 1024

func (m *message) box(owner string) *inbox {
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

func (m *message) deliver(owner string, version uint64, message string) {
	b := m.box(owner)
	b.version, b.message = version, message
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

// Stamp returns a version that everything heard from now on exceeds, 0 if
// nothing is heard on channel.
func (ts *Topics) Stamp(channel string) uint64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil && t.state == Live {
		return ts.last
	}
	return 0
}
