package hosts

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// campaign runs an Election, until t ends at the latest. What it returns has it resign, and waits
// until it has.
func campaign(t *testing.T, run func(context.Context) error) (resign func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	resign = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(resign)
	return resign
}

// succeed wants that one instance alone works, and after it has resigned another one alone. So
// much work that the old leader had begun before may be reported after the first of the next one.
func succeed(t *testing.T, worked <-chan int, resign []func(), begun int) {
	t.Helper()
	const some = 3
	first := <-worked
	for range some {
		if w := <-worked; w != first {
			t.Fatalf("instance %d works while %d leads", w, first)
		}
	}
	resign[first]()
	next, works := -1, 0
	for works < some {
		switch w := <-worked; {
		case w == first && next < 0: // before it resigned
		case w == first && begun > 0:
			begun--
		case w == first || next >= 0 && w != next:
			t.Fatalf("instance %d works while %d leads, %d has resigned", w, next, first)
		default:
			next = w
			works++
		}
	}
}
