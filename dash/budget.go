package dash

import (
	"sync"
	"time"
)

// These constants limit how many commands the dashboard sends to a store. A poll of a name
// costs a server about three commands. The details of a name cost it about ten commands. If the
// dashboard uses its whole budget and scans all names at the same time, the server executes
// less than 200 commands of the dashboard per second.
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

// take grants up to `most` polls, and returns their number. If fewer than `least` polls are
// left, it grants none and returns 0.
func (b *budget) take(now time.Time, least, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.left = pollsAtOnce
	} else {
		b.left = min(pollsAtOnce, b.left+now.Sub(b.at).Seconds()*pollsPerSecond)
	}
	b.at = now
	granted := min(most, int(b.left))
	if granted < least {
		return 0
	}
	b.left -= float64(granted)
	return granted
}
