package rows

import (
	"slices"
	"time"
)

const (
	// pollLeast is the pause before a poll in two cases: a waiter has begun to wait that is not
	// near the front of its queue, or the last poll woke a waiter. While no row is free, each
	// pause is twice as long as the last pause, up to pollMost.
	pollLeast = 5 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	// pollIdle is the pause while no waiter needs polls.
	pollIdle = time.Hour
	// When the first waiter of a queue begins to wait, the hub polls after pollFirst. Each
	// later pause is the time for which the lock has been held, divided by pollFraction. For
	// example, if a lock is released after 40 ms, the hub notices that at most about 10 ms
	// later. When the lock has a new holder, the hub polls for the second waiter after twice
	// pollFirst, because that waiter may be the first now.
	pollFirst    = time.Millisecond
	pollFraction = 4
	// nearPositions is the number of waiters at the front of the queue for which the hub polls
	// soon after the lock got a new holder.
	nearPositions = 2
)

// recordForemost records the position of the foremost waiter of this process. It returns the
// pause until the next poll, or 0 if no poll is needed soon. If the waiter has moved forward
// since the last poll, and at least nearPositions waiters are before it, the pause comes from
// the pace of the queue: it is a third of the estimated time until the waiter is the second. A
// poll after the whole time would often be late. A late poll slows the queue down, and so makes
// the next estimates longer. The mutex of the hub is held.
func (t *topic) recordForemost(position int) (soon time.Duration) {
	now := time.Now()
	if gained := t.foremost - position; gained > 0 && position >= nearPositions {
		each := now.Sub(t.polledAt) / time.Duration(gained)
		soon = min(max(each*time.Duration(position-1)/3, pollAfter(1)), pollMost)
	}
	t.foremost = position
	t.polledAt = now
	return soon
}

// missedTurn reports whether a waiter has lost its position in the queue, because its turn
// passed and another claim took the lock. Only another Try gives the waiter a new position.
// The mutex of the hub is held.
func (s *sleeper) missedTurn(r *Row, poll uint64) bool {
	return s.position < Waiting && s.notQueued(r, poll)
}

// wantsPosition reports whether a waiter is not in the queue because the queue was full.
// The mutex of the hub is held.
func (s *sleeper) wantsPosition(r *Row, poll uint64) bool {
	return s.position == Waiting && !s.noQueue && s.notQueued(r, poll)
}

// notQueued reports whether a waiter is neither in the queue of the row r nor the holder. It
// reports false if the waiter began to wait after the poll that read r had begun. The parameter
// `poll` is the number of that poll. The mutex of the hub is held.
func (s *sleeper) notQueued(r *Row, poll uint64) bool {
	return s.waiting && poll > s.pollsBefore && r.Owner != s.owner && !slices.Contains(r.Waiters, s.owner)
}

// firstPollAfter returns the pause until the next poll for the first waiter in the queue. The
// parameter `held` is the time for which the lock has been held. It is negative if the clock of
// another program, which wrote the row, is ahead of the clock of the server.
func firstPollAfter(held time.Duration) time.Duration {
	if held < 0 {
		return pollMost
	}
	return min(max(held/pollFraction, pollFirst), pollMost)
}

// pollAfter returns the pause until the poll for a waiter at a position in the queue. The pause
// begins when the waiter begins to wait, or when a poll has found a new holder.
func pollAfter(position int) time.Duration {
	return min(time.Duration(position+1)*pollFirst, pollLeast)
}

// sooner returns the shorter of two pauses. A pause of 0 means that there is no pause, and does
// not count.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	if b == 0 {
		return a
	}
	return min(a, b)
}
