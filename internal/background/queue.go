package background

import "sync"

// Queue runs functions in goroutines of a Group, Most of them at once. The others wait for
// their turn, and take no goroutine for that.
type Queue struct {
	Group *Group
	Most  int

	mu      sync.Mutex
	running int
	waiting []func()
}

// Go has fn called, with true if it had to wait.
func (q *Queue) Go(fn func(waited bool)) {
	q.Group.Begin()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == q.Most {
		q.waiting = append(q.waiting, q.counted(fn, true))
		return
	}
	q.running++
	go q.work(q.counted(fn, false))
}

// counted returns a call of fn that ends what Go began.
func (q *Queue) counted(fn func(bool), waited bool) func() {
	return func() {
		defer q.Group.End()
		fn(waited)
	}
}

// work makes the first call, and then those that wait.
func (q *Queue) work(first func()) {
	for next := first; next != nil; next = q.next() {
		next()
	}
}

// next returns what has waited for longest; nil if nothing does.
func (q *Queue) next() (fn func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return nil
	}
	fn, q.waiting = q.waiting[0], q.waiting[1:]
	return fn
}
