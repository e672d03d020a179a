package versioned

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/document"
)

const (
	// clientsMost is of how many clients in a document an Engine asks whether they have departed, and
	// knownMost how many of those that had it remembers.
	clientsMost = 32
	knownMost   = 1000
)

// presences is what an Engine knows about clients, if its Store is a Presence.
type presences struct {
	store Presence // nil if the Store does not know which clients live

	mu       sync.Mutex
	arrived  map[string]bool // clients of this Engine
	departed map[string]bool // clients that will not come back
}

// arrive makes the client of a claim known to others.
func (p *presences) arrive(client string) error {
	if p.store == nil || client == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arrived[client] {
		return nil
	}
	if err := p.store.Arrive(client); err != nil {
		return fmt.Errorf("make this client known: %w", err)
	}
	p.arrived[client] = true
	return nil
}

// hasDeparted reports whether a client has ended.
func (p *presences) hasDeparted(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.arrived[client]:
		return false
	case p.departed[client]:
		return true
	case !p.store.Departed(client):
		return false
	}
	if len(p.departed) >= knownMost {
		clear(p.departed) // they are asked for once more
	}
	p.departed[client] = true
	return true
}

// lookForDepartures finds out which of the clients in the document of n have departed. It reports
// whether there are any.
func (e *Engine) lookForDepartures(n *entry) bool {
	if e.presences.store == nil {
		return false
	}
	n.mu.Lock()
	clients := n.doc.Clients()
	n.mu.Unlock()
	var departed []string
	for _, client := range clients[:min(clientsMost, len(clients))] {
		if e.presences.hasDeparted(client) {
			departed = append(departed, client)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.departed = departed
	return len(departed) > 0
}

// dismiss removes from d what departed clients have. The mutex of n is held.
func (n *entry) dismiss(d *document.Document, now time.Time) {
	for _, client := range n.departed {
		d.Dismiss(client, now)
	}
}

// wakeAll wakes all sleepers, because a client has departed.
func (n *entry) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sleepers {
		if s.waits {
			s.wake()
		}
	}
}
