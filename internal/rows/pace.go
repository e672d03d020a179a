package rows

import (
	"slices"
	"time"
)

const (
	// pollLeast is the pause before the first poll after a waiter begins to wait that is not
	// near the front of its queue, and before the poll after one that woke a waiter. While no
	// row is free, each pause is twice as long as the one before, up to pollMost.
	pollLeast = 5 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	// pollIdle is the pause while no waiter needs polls.
	pollIdle = time.Hour
	// The first waiter in a queue polls after pollFirst. It polls again after the time for
	// which the lock has been held, divided by pollFraction: so it notices a release late by at
	// most that part of the held time. When the lock has a new holder, the second waiter polls
	// after twice pollFirst, so that it notices soon that it is the first.
	pollFirst    = time.Millisecond
	pollFraction = 4
	// nearPositions is how many waiters at the front of the queue poll soon after the lock
	// got a new holder.
	nearPositions = 2
)

// recordForemost records the position of the foremost waiter of this process. If that position
// is nearer to the front than before, and not one of nearPositions, recordForemost estimates
// from the pace of the queue when the waiter will be the second, and returns a third of that
// time. Else it returns 0. A poll after the whole time would often be late. That would slow
// the queue down, and make the next estimates longer. The mutex of the hub is held.
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

// notQueued reports whether a waiter that waited before the poll began is not in the queue of
// the row r that the poll read, and is not the holder. The mutex of the hub is held.
func (s *sleeper) notQueued(r *Row, poll uint64) bool {
	return s.waiting && poll > s.pollsBefore && r.Owner != s.owner && !slices.Contains(r.Waiters, s.owner)
}

// firstPollAfter returns how soon the first waiter in the queue polls again. `held` is the time
// for which the lock has been held. It is negative if another program wrote the row by another
// clock.
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

// sooner returns the shorter of two pauses, where 0 means that there is no pause.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
