package redishold

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
	young, old map[string]place
}

// find returns the place of name if it is remembered.
func (ps *places) find(name string) (place, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p, ok := ps.young[name]; ok {
		return p, true
	}
	p, ok := ps.old[name]
	if ok {
		ps.put(p)
	}
	return p, ok
}

// keep remembers p.
func (ps *places) keep(p place) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.put(p)
}

func (ps *places) put(p place) {
	if len(ps.young) >= placesKept {
		ps.old, ps.young = ps.young, nil
	}
	if ps.young == nil {
		ps.young = map[string]place{}
	}
	ps.young[p.name] = p
}

// place returns where the lock called name lives.
func (l *layout) place(name string) place {
	p, ok := l.places.find(name)
	if ok {
		return p
	}
	if len(name) <= longestKept {
		name = strings.Clone(name) // it may be a part of something large
		p = l.locate(name)
		l.places.keep(p)
		return p
	}
	return l.locate(name)
}
