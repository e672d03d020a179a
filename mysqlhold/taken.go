package mysqlhold

import (
	"sync"
	"time"
)

const (
	// takenFor is for how long a name counts as taken after a Try was refused. takenMost
	// bounds for how many names that is remembered.
	takenFor  = 5 * time.Second
	takenMost = 1000
)

// taken remembers names that were just found taken. Their tries skip a locked row. That
// costs the server half a millisecond for a temporary table: too much for other names,
// whose row is rarely locked.
type taken struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// add remembers a name.
func (t *taken) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until == nil || len(t.until) >= takenMost {
		t.until = make(map[string]time.Time)
	}
	t.until[name] = time.Now().Add(takenFor)
}

// drop forgets a name, which was found free.
func (t *taken) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.until, name)
}

// has reports whether a name was just found taken.
func (t *taken) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.until[name])
}
