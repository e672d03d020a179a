package quorum

import (
	"context"
	"fmt"
	"sync"
)

// background counts the goroutines that outlive the call that started them.
type background struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when the last one ends; nil while there is none
}

// run runs fn in a goroutine of its own.
func (b *background) run(fn func()) {
	b.mu.Lock()
	if b.n == 0 {
		b.idle = make(chan struct{})
	}
	b.n++
	b.mu.Unlock()
	go func() {
		defer b.done()
		fn()
	}()
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// wait returns when nothing runs, or ctx's error.
func (b *background) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		n, idle := b.n, b.idle
		b.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("quorum: %d calls are still under way: %w", n, ctx.Err())
		}
	}
}
