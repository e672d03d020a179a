package rows

import (
	"sync"
	"time"
)

// recentMost is how many names a Recent remembers at most.
const recentMost = 1000

// Recent remembers a value of each name for some time. The zero Recent remembers nothing.
type Recent[T any] struct {
	mu     sync.Mutex
	values map[string]recent[T]
}

type recent[T any] struct {
	value T
	until time.Time
}

// Add remembers the value of a name for the time d.
func (r *Recent[T]) Add(name string, value T, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.values[name]
	if r.values == nil || !known && len(r.values) >= recentMost {
		r.values = make(map[string]recent[T]) // to forget a name costs one more call of the Table
	}
	r.values[name] = recent[T]{value, time.Now().Add(d)}
}

// Drop forgets a name.
func (r *Recent[T]) Drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.values, name)
}

// Get returns the value of a name. The result `ok` is false if the name is not remembered.
func (r *Recent[T]) Get(name string) (value T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.values[name]
	return seen.value, time.Now().Before(seen.until)
}
