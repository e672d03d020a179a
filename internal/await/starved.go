package await

import (
	"sync"
	"testing"
	"time"
)

// Starved calls do, and returns for how long in all this process had no processor
// meanwhile when it wanted one.
func Starved(do func()) time.Duration {
	w := watch()
	defer w.end()
	do()
	return w.Late()
}

// Watch measures a time, and for how long of it this process had no processor when it
// wanted one.
type Watch struct {
	Began time.Time

	mu         sync.Mutex
	late       time.Duration
	next       time.Time // when it is to look again
	done, gone chan struct{}
}

// NewWatch begins to measure. It goes on until the test ends.
func NewWatch(t testing.TB) *Watch {
	w := watch()
	t.Cleanup(w.end)
	return w
}

// Late returns for how long there was no processor so far.
func (w *Watch) Late() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late + max(time.Since(w.next), 0)
}

// Took returns how long it is since the beginning, without the time that had no processor.
func (w *Watch) Took() time.Duration { return max(time.Since(w.Began)-w.Late(), 0) }

func watch() *Watch {
	now := time.Now()
	w := &Watch{Began: now, next: now.Add(tick), done: make(chan struct{}), gone: make(chan struct{})}
	go w.run()
	return w
}

// tick is how often a Watch looks.
const tick = 10 * time.Millisecond

func (w *Watch) run() {
	defer close(w.gone)
	for {
		select {
		case <-w.done:
			return
		case <-time.After(tick):
		}
		w.mu.Lock()
		now := time.Now()
		w.late += max(now.Sub(w.next), 0)
		w.next = now.Add(tick)
		w.mu.Unlock()
	}
}

func (w *Watch) end() {
	close(w.done)
	<-w.gone
}
