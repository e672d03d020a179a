package layout

import (
	"strings"
	"sync"
)

const (
	placesKept  = 1024 // in each of two generations
	longestKept = 256  // bytes of a name
)

// places remembers where the names live that were used last: two generations of
// them, of which the older is dropped as a whole when the younger is full.
type places struct {
	mu         sync.Mutex
	young, old map[string]Place
}

// find returns the place of name if it is remembered. The mutex is held.
func (ps *places) find(name string) (Place, bool) {
	if p, ok := ps.young[name]; ok {
		return p, true
	}
	p, ok := ps.old[name]
	if ok {
		ps.keep(p)
	}
	return p, ok
}

// keep remembers p. The mutex is held.
func (ps *places) keep(p Place) {
	if len(ps.young) >= placesKept {
		ps.old, ps.young = ps.young, nil
	}
	if ps.young == nil {
		ps.young = map[string]Place{}
	}
	ps.young[p.Name] = p
}

// Place returns where the lock called name lives.
func (l *Layout) Place(name string) Place {
	if len(name) > longestKept {
		return l.Locate(name)
	}
	l.places.mu.Lock()
	defer l.places.mu.Unlock()
	p, ok := l.places.find(name)
	if !ok {
		p = l.Locate(strings.Clone(name)) // it may be a part of something large
		l.places.keep(p)
	}
	return p
}
