package await

import (
	"sync"
	"testing"
	"time"
)

// Starved calls the function `do`. It returns for how long, in total, this process wanted a
// processor during that call and had none.
func Starved(do func()) time.Duration {
	w := watch()
	defer w.end()
	do()
	return w.Late()
}

// Watch measures the time since its beginning, and for how long in this time the process wanted
// a processor and had none.
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

// Late returns for how long, so far, the process wanted a processor and had none.
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
