package background

import "sync"

// Queue runs functions as tasks of a Group. The field Most is the maximal number of functions
// that run at once. Further functions wait without a goroutine, and begin in the order in which
// they came.
type Queue struct {
	Group *Group
	Most  int

	mu      sync.Mutex
	running int
	waiting []func()
}

// Go runs fn in a goroutine, at once or later. The argument `waited` of fn is true if fn had to
// wait.
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

// counted returns a function that calls fn and then ends the task that Go began.
func (q *Queue) counted(fn func(bool), waited bool) func() {
	return func() {
		defer q.Group.End()
		fn(waited)
	}
}

// work calls the function `first`, and then the functions that wait, one after the other.
func (q *Queue) work(first func()) {
	for next := first; next != nil; next = q.next() {
		next()
	}
}

// next removes and returns the function that has waited for longest; nil if there is none.
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
