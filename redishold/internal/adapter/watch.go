package adapter

import (
	"sync"
	"time"
)

// Watch looks for a change again and again while there is doubt. Between two looks
// it is a timer only: no goroutine is to outlive a client for seconds.
type Watch struct {
	every, lasts time.Duration
	look         func() (changed, last bool)

	mu      sync.Mutex
	again   bool          // somebody has come since the latest look began
	until   time.Time     // looks go on till then
	changed chan struct{} // closed when a look finds a change; nil while nobody looks
}

// NewWatch returns a Watch that calls look, never twice at a time, and once more every
// so often until a doubt has lasted long enough, or a look says that it is the last.
func NewWatch(every, lasts time.Duration, look func() (changed, last bool)) *Watch {
	return &Watch{every: every, lasts: lasts, look: look}
}

// Suspect starts looks, or prolongs them: a call was not answered, and its server may be
// replaced only some seconds later.
func (w *Watch) Suspect() { w.begin(w.lasts) }

// Once has one look taken.
func (w *Watch) Once() { w.begin(0) }

// Changed returns what is closed when a look finds a change, and nil while nobody looks.
func (w *Watch) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *Watch) begin(lasts time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
	if until := time.Now().Add(lasts); until.After(w.until) {
		w.until = until
	}
	if w.changed == nil {
		w.changed = make(chan struct{})
		go w.run()
	}
}

// run looks, and comes again until there is no more doubt.
func (w *Watch) run() {
	w.mu.Lock()
	w.again = false
	w.mu.Unlock()
	changed, last := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	if changed {
		close(w.changed)
		w.changed = make(chan struct{})
	}
	if !last && (w.again || time.Now().Before(w.until)) {
		time.AfterFunc(w.every, w.run)
		return
	}
	w.changed = nil
}
