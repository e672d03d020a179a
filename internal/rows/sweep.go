package rows

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	// sweepAfter is the pause before the Engine releases an indeterminate claim once more. If
	// the connection was cut during the Try of this claim, the server executes the statement of
	// that Try within this pause, or never.
	sweepAfter = time.Second
	sweepLimit = 5 * time.Second
)

// sweeper has the claims that the Engine must release once more. One goroutine releases them
// all.
type sweeper struct {
	mu      sync.Mutex
	late    []lateClaim // sorted by the time in the field `due`
	running bool
}

type lateClaim struct {
	claim driver.Claim
	due   time.Time
}

// sweep plans a second release of each claim in cs, after a pause of sweepAfter. The first
// release may have come too early: the server may execute the Try of the claim after it.
func (e *Engine) sweep(cs []driver.Claim) {
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cs {
		s.late = append(s.late, lateClaim{c, time.Now().Add(sweepAfter)})
	}
	if len(s.late) > 0 && !s.running {
		s.running = true
		e.group.Go(e.sweepAll)
	}
}

// sweepAll releases each claim when it is due, until no claim is left.
func (e *Engine) sweepAll() {
	for {
		e.sweeper.mu.Lock()
		if len(e.sweeper.late) == 0 {
			e.sweeper.running = false
			e.sweeper.mu.Unlock()
			return
		}
		due := e.sweeper.late[0].due
		e.sweeper.mu.Unlock()
		retry.Sleep(context.Background(), time.Until(due))
		e.sweepDue()
	}
}

// sweepDue releases all claims that are due. It ignores errors, because a lease that nobody
// releases expires.
func (e *Engine) sweepDue() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	for cs := e.sweeper.take(); len(cs) > 0; {
		chunk := cs[:min(oncePerName(cs), e.batch)]
		cs = cs[len(chunk):]
		_, _ = call(ctx, e, nil, func() ([]bool, error) { return e.release(ctx, chunk) })
	}
}

// oncePerName returns how many claims at the beginning of cs have different names. A call of a
// Table may have each name only once, so the caller passes only these claims.
func oncePerName(cs []driver.Claim) int {
	names := make(map[string]bool, len(cs))
	for n, c := range cs {
		if names[c.Name] {
			return n
		}
		names[c.Name] = true
	}
	return len(cs)
}

// take removes the claims that are due, and returns them.
func (s *sweeper) take() (cs []driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.late) > 0 && !s.late[0].due.After(now) {
		cs, s.late = append(cs, s.late[0].claim), s.late[1:]
	}
	return cs
}
