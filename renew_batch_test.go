package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/memhold"
)

// frozenNode is a store of two nodes, one of which hangs. A call ends when both have
// answered, or with its context.
type frozenNode struct {
	*memhold.Backend

	mu      sync.Mutex
	failed  map[string]bool
	mixed   int           // calls with claims of the healthy node beside some that had failed before
	slowest time.Duration // of the calls with claims of the healthy node
}

func (s *frozenNode) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	start := time.Now()
	answers, err := s.Backend.Renew(ctx, cs)
	if err != nil {
		return nil, err
	}
	healthy, frozen, again := false, false, false
	s.mu.Lock()
	for i, c := range cs {
		if !strings.HasPrefix(c.Name, "frozen") {
			healthy = true
			continue
		}
		answers[i] = driver.Renewal{Err: errors.New("no answer from the node")}
		frozen, again = true, again || s.failed[c.Name]
		s.failed[c.Name] = true
	}
	s.mu.Unlock()
	if frozen {
		<-ctx.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if healthy && again {
		s.mixed++
	}
	if healthy {
		s.slowest = max(s.slowest, time.Since(start))
	}
	return answers, nil
}

// Locks on healthy nodes do not share calls with locks whose renewals have failed, also if
// all are due at once. Each renewal waits for a node no longer than a first attempt does.
// attempt does.
func TestFrozenNodeSharesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &frozenNode{Backend: memhold.New(), failed: make(map[string]bool)}
		l := New(store, &Options{TTL: 30 * time.Second})
		var ahead atomic.Int64
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		var locks []*Lock
		for i := range 100 {
			for _, node := range []string{"healthy", "frozen"} {
				lock, err := l.Lock(t.Context(), fmt.Sprint(node, " ", i))
				if err != nil {
					t.Fatal(err)
				}
				locks = append(locks, lock)
			}
		}
		for range 6 {
			time.Sleep(4 * time.Second)
			ahead.Add(int64(2 * time.Second)) // a step of the clock: all are due
		}
		store.mu.Lock()
		if store.mixed > 0 {
			t.Errorf("%d calls carried healthy leases beside some whose renewal had failed before", store.mixed)
		}
		if limit := retry.Timeout(30*time.Second, 0); store.slowest > limit {
			t.Errorf("a healthy lease was renewed after %v, want %v at most", store.slowest, limit)
		}
		store.mu.Unlock()
		for _, lock := range locks {
			_ = lock.Unlock()
		}
	})
}
