package dash

import (
	"sync"
	"time"
)

// The limits of what the dashboard asks of a store. A poll of a name costs a server about
// three commands, the details of a name about ten. With the whole budget in use, beside a
// scan of all names, the server executes less than 200 commands a second.
const (
	pollsPerSecond = 32.0
	pollsAtOnce    = 64.0
	pollsPerDetail = 4
	scanPace       = 85 // commands per second
)

// budget bounds how many names are polled, however many browsers there are.
type budget struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

// take grants up to n polls.
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

// takeAll grants n polls or none.
func (b *budget) takeAll(now time.Time, n int) bool {
	b.mu.Lock()
	enough := b.at.IsZero() || b.left+now.Sub(b.at).Seconds()*pollsPerSecond >= float64(n)
	b.mu.Unlock()
	return enough && b.take(now, n) == n
}
