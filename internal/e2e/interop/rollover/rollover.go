// Package rollover replaces the instances of a program by those of another release, while they
// take one lock in turns, and then does the same in the opposite direction.
package rollover

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

const (
	// Turns is how often instances of different releases take the lock, one after the other.
	// Half of the turns are in the roll-over, the other half in the roll-back.
	Turns = 200

	// same is how often two instances of one release take the lock between two steps.
	same = 6

	// dwell is how long each hold lasts while the other instance asks for the lock. A lock that
	// does not exclude is granted within that time.
	dwell = 10 * time.Millisecond

	// limit is how long the whole test may take.
	limit = 5 * time.Minute
)

// Release takes the lock, calls the function `work`, releases the lock, and returns the error of
// `work`. If it gets no lock, it returns another error.
type Release func(ctx context.Context, work func(context.Context) error) error

// Test runs instances of all releases, which are in the order of the roll-over. Two releases
// that follow each other run at the same time.
func Test(t *testing.T, releases ...Release) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	last := len(releases) - 1
	run := func(from, to int) {
		t.Run(fmt.Sprintf("release %d beside %d", to, from), func(t *testing.T) {
			takeTurns(ctx, t, [2]Release{releases[from], releases[to]}, Turns/(2*last))
		})
		t.Run(fmt.Sprintf("release %d alone", to), func(t *testing.T) {
			takeTurns(ctx, t, [2]Release{releases[to], releases[to]}, same)
		})
	}
	for i := range last {
		run(i, i+1)
	}
	for i := last; i > 0; i-- {
		run(i, i-1)
	}
}

// takeTurns has two instances take the lock n times in all.
func takeTurns(ctx context.Context, t *testing.T, instances [2]Release, n int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSection(n)
	var running sync.WaitGroup
	for i, take := range instances {
		running.Go(func() {
			for turn := i; turn < n; turn += 2 {
				if err := s.pass(ctx, turn, take); err != nil {
					t.Errorf("turn %d of %d: %v", turn, n, err)
					cancel() // the other instance would wait for the next turn
					return
				}
			}
		})
	}
	running.Wait()
	if passed := int(s.passed.Load()); passed != n && !t.Failed() {
		t.Errorf("the lock was taken %d times, want %d", passed, n)
	}
}

// section is what the lock protects.
type section struct {
	inside, passed atomic.Int32
	may, asks      []chan struct{} // of each turn: closed when its instance may ask, and when it asks
}

func newSection(n int) *section {
	s := &section{may: make([]chan struct{}, n), asks: make([]chan struct{}, n)}
	for i := range n {
		s.may[i], s.asks[i] = make(chan struct{}), make(chan struct{})
	}
	close(s.may[0])
	return s
}

// pass takes the lock for one turn. It asks for the lock while the instance of the turn before
// holds it.
func (s *section) pass(ctx context.Context, turn int, take Release) error {
	if err := received(ctx, s.may[turn]); err != nil {
		return err
	}
	close(s.asks[turn])
	return take(ctx, func(held context.Context) error {
		if n := s.inside.Add(1); n != 1 {
			return fmt.Errorf("%d instances hold the lock", n)
		}
		defer s.inside.Add(-1)
		s.passed.Add(1)
		if turn+1 == len(s.may) {
			return held.Err()
		}
		close(s.may[turn+1])
		if err := received(held, s.asks[turn+1]); err != nil {
			return err
		}
		if await.Eventually(dwell, func() bool { return s.inside.Load() != 1 }) {
			return fmt.Errorf("%d instances hold the lock", s.inside.Load())
		}
		return held.Err() // a context that ends with the lock has not ended
	})
}

// received waits until c is closed.
func received(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
