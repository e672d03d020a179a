package dash

import (
	"sync"
	"time"
)

// What the dashboard may ask of a store. A name that is looked at costs a server
// some three commands, its details some ten. With all of it in use, and a walk
// over all names at its side, the server runs less than 200 a second.
const (
	pollsPerSecond = 32.0
	pollsAtOnce    = 64.0
	pollsPerDetail = 4
	scanPace       = 85 // commands per second
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
		b.left = pollsAtOnce
	} else {
		b.left = min(pollsAtOnce, b.left+now.Sub(b.at).Seconds()*pollsPerSecond)
	}
	b.at = now
	granted := min(n, int(b.left))
	b.left -= float64(granted)
	return granted
}

// takeAll grants n looks or none.
func (b *budget) takeAll(now time.Time, n int) bool {
	b.mu.Lock()
	enough := b.at.IsZero() || b.left+now.Sub(b.at).Seconds()*pollsPerSecond >= float64(n)
	b.mu.Unlock()
	return enough && b.take(now, n) == n
}
