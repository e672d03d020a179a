package dash

import (
	"sync"
	"time"
)

// What the dashboard may ask of a store. A name that is looked at costs a server
// some three commands, its details some ten. With all of it in use, and a walk
// over all names at its side, the server runs less than 200 a second.
const (
	looksPerSecond = 32.0
	looksAtOnce    = 64.0
	looksPerDetail = 4
	walkPace       = 85 // commands per second
)

// budget bounds how many names are looked at, however many browsers there are.
type budget struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

// take grants up to n looks.
func (b *budget) take(now time.Time, n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.left = looksAtOnce
	} else {
		b.left = min(looksAtOnce, b.left+now.Sub(b.at).Seconds()*looksPerSecond)
	}
	b.at = now
	granted := min(n, int(b.left))
	b.left -= float64(granted)
	return granted
}

// takeAll grants n looks or none.
func (b *budget) takeAll(now time.Time, n int) bool {
	b.mu.Lock()
	enough := b.at.IsZero() || b.left+now.Sub(b.at).Seconds()*looksPerSecond >= float64(n)
	b.mu.Unlock()
	return enough && b.take(now, n) == n
}
