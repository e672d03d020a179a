package mysqlhold

import (
	"sync"
	"time"
)

const (
	// takenFor is for how long a name counts as taken after a Try found it taken. takenMost is
	// how many such names a table remembers at most.
	takenFor  = 5 * time.Second
	takenMost = 1000
)

// taken remembers names that a Try has just found taken. A try of such a name skips a locked
// row. For that the server makes a temporary table, which takes half a millisecond: too long
// for other names, whose rows are rarely locked.
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

// drop forgets a name, because it was found free.
func (t *taken) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.until, name)
}

// has reports whether a Try found a name taken less than takenFor ago.
func (t *taken) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.until[name])
}
