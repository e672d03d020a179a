package rows

import (
	"slices"
	"time"
)

const (
	// pollLeast is the pause before the first poll after a waiter without a near position
	// in a queue begins to wait, or was woken. The pause doubles up to pollMost while no
	// row is free.
	pollLeast = 5 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	// pollIdle is the pause while no waiter needs polls.
	pollIdle = time.Hour
	// The first in a queue polls after pollFirst, then again after the held time divided by
	// pollFraction: so it is late by at most that part of the held time. While the lock
	// changes hands, the second polls after twice pollFirst, to learn in time that it is
	// the first.
	pollFirst    = time.Millisecond
	pollFraction = 4
	// nearPositions is how many waiters poll often while the lock changes hands.
	nearPositions = 2
)

// recordForemost records the position of the foremost waiter. If it is nearer than before,
// it returns a third of the time until the waiter will be the second, if the queue
// continues at this pace; else 0. A poll after the whole time would often be late. That
// would slow the queue down, and make the next estimates longer. The mutex of the hub is
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

// missedTurn reports whether a waiter has lost its position in the queue: others took the
// lock when its turn had passed. Only another Try gives it a new position. The mutex of the
// hub is held.
func (s *sleeper) missedTurn(r *Row, poll uint64) bool {
	return s.position < Waiting && s.notQueued(r, poll)
}

// wantsPosition reports whether a waiter is not in the queue because the queue was full.
// The mutex of the hub is held.
func (s *sleeper) wantsPosition(r *Row, poll uint64) bool {
	return s.position == Waiting && s.notQueued(r, poll)
}

// notQueued reports whether a waiter waited already when a poll read its row, and is not in
// the queue of the row. The mutex of the hub is held.
func (s *sleeper) notQueued(r *Row, poll uint64) bool {
	return s.waiting && poll > s.pollsBefore && r.Owner != s.owner && !slices.Contains(r.Waiters, s.owner)
}

// firstPollAfter returns how soon the first in the queue polls a lock that has been held
// for so long. held is negative if another program wrote the row by another clock.
func firstPollAfter(held time.Duration) time.Duration {
	if held < 0 {
		return pollMost
	}
	return min(max(held/pollFraction, pollFirst), pollMost)
}

// pollAfter returns how soon a waiter at a position in the queue polls again, while the
// lock changes hands.
func pollAfter(position int) time.Duration {
	return min(time.Duration(position+1)*pollFirst, pollLeast)
}

// sooner returns the shorter of two pauses, where 0 stands for none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
