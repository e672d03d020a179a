package await

import (
	"sync"
	"testing"
	"time"
)

// Starved calls the function `do`. It returns the total time during that call in which this
// process wanted a processor and had none.
func Starved(do func()) time.Duration {
	w := watch()
	defer w.end()
	do()
	return w.Late()
}

// Watch measures the time since its beginning, and the part of this time in which the process
// wanted a processor and had none.
type Watch struct {
	Began time.Time

	mu         sync.Mutex
	late       time.Duration
	next       time.Time // when the pause until the next measurement should end
	done, gone chan struct{}
}

// NewWatch returns a Watch that measures from now until the test ends.
func NewWatch(t testing.TB) *Watch {
	w := watch()
	t.Cleanup(w.end)
	return w
}

// Late returns the time so far in which the process wanted a processor and had none.
func (w *Watch) Late() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late + max(time.Since(w.next), 0)
}

// Took returns the time since the beginning, without the time in which the process had no
// processor.
func (w *Watch) Took() time.Duration { return max(time.Since(w.Began)-w.Late(), 0) }

func watch() *Watch {
	now := time.Now()
	w := &Watch{Began: now, next: now.Add(tick), done: make(chan struct{}), gone: make(chan struct{})}
	go w.run()
	return w
}

// tick is the pause between two measurements of a Watch. If a pause takes longer, the process
// had no processor.
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
