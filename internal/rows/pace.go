package rows

import (
	"slices"
	"time"
)

const (
	// pollLeast is the pause before a poll in two cases: a waiter has begun to wait that is not
	// near the front of its queue, or the last poll woke a waiter. While no row is free, each
	// pause is twice as long as the one before, up to pollMost.
	pollLeast = 5 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	// pollIdle is the pause while no waiter needs polls.
	pollIdle = time.Hour
	// When the first waiter of a queue begins to wait, it polls after pollFirst. Each later
	// pause is the time for which the lock has been held, divided by pollFraction. So the
	// waiter notices a release late by at most that part of the time. When the lock has a new
	// holder, the second waiter polls after twice pollFirst, so that it notices soon that it is
	// now the first.
	pollFirst    = time.Millisecond
	pollFraction = 4
	// nearPositions is how many waiters at the front of the queue poll soon after the lock
	// got a new holder.
	nearPositions = 2
)

// recordForemost records the position of the foremost waiter of this process. If the waiter has
// moved forward since the last poll, and is not one of the first nearPositions, recordForemost
// estimates the time until the waiter is the second, from the pace of the queue. It returns a
// third of that time. Otherwise it returns 0. A poll after the whole time would often be late:
// it would slow the queue down, and make the next estimates longer. The mutex of the hub is
// held.
func (t *topic) recordForemost(position int) (soon time.Duration) {
	now := time.Now()
	if gained := t.foremost - position; gained > 0 && position >= nearPositions {
		each := now.Sub(t.polledAt) / time.Duration(gained)
		soon = min(max(each*time.Duration(position-1)/3, pollAfter(1)), pollMost)
	}
	t.foremost, t.polledAt = position, now
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

// firstPollAfter returns how soon the first waiter in the queue polls again. The parameter
// `held` is the time for which the lock has been held. It is negative if the clock of another
// program, which wrote the row, is ahead of the clock of the server.
func firstPollAfter(held time.Duration) time.Duration {
	if held < 0 {
		return pollMost
	}
	return min(max(held/pollFraction, pollFirst), pollMost)
}

// pollAfter returns how soon a waiter at a position in the queue polls after it began to wait,
// or after the lock got a new holder.
func pollAfter(position int) time.Duration {
	return min(time.Duration(position+1)*pollFirst, pollLeast)
}

// sooner returns the shorter of two pauses. A pause of 0 means that there is no pause, and does
// not count.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
