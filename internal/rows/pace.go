package rows

import (
	"slices"
	"time"
)

const (
	// pollLeast is how soon rows are looked at after somebody without a near place in a
	// queue begins to wait, or was woken; the pause doubles up to pollMost while nothing is
	// free.
	pollLeast = 5 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	// pollIdle is the pause while nobody is to be woken by a look.
	pollIdle = time.Hour
	// The first in a queue looks after pollFirst, then each time after the pollPart
	// of the time that the lock is held: so it comes late by no more than that part of it.
	// The second looks after twice as long while the lock changes hands, to learn in time
	// that it is the first.
	pollFirst = time.Millisecond
	pollPart  = 4
	// nearPlaces is how many waiters look often while the lock changes hands.
	nearPlaces = 2
)

// advanced takes note of the place of the foremost waiter. If it is nearer than before, it
// returns a third of the time until the waiter will be the second, if the queue goes on like
// that; else 0. After the whole time it would often be late, which makes the queue slower,
// and so the next estimates longer. The mutex of the hub is held.
func (t *topic) advanced(place int) (soon time.Duration) {
	now := time.Now()
	if gained := t.place - place; gained > 0 && place >= nearPlaces {
		each := now.Sub(t.looked) / time.Duration(gained)
		soon = min(max(each*time.Duration(place-1)/3, soonAt(1)), pollMost)
	}
	t.place, t.looked = place, now
	return soon
}

// missedTurn says that a waiter waits for its turn and has no place any more: others took
// the lock when its turn had passed. Only another try makes a new place. The mutex of the
// hub is held.
func (s *sleeper) missedTurn(r *Row, look uint64) bool {
	return s.place < Waiting && s.outside(r, look)
}

// wantsPlace says that a waiter waits without a place in the queue: that was full. The mutex
// of the hub is held.
func (s *sleeper) wantsPlace(r *Row, look uint64) bool {
	return s.place == Waiting && s.outside(r, look)
}

// outside says that a waiter waited already when a row was looked at, and has no place in
// its queue. The mutex of the hub is held.
func (s *sleeper) outside(r *Row, look uint64) bool {
	return s.inside && look > s.look && r.Owner != s.owner && !slices.Contains(r.Waiters, s.owner)
}

// firstAt returns how soon the first in the queue looks at a lock that is held for so long.
// It is less than nothing where another program has written the row, by another clock.
func firstAt(held time.Duration) time.Duration {
	if held < 0 {
		return pollMost
	}
	return min(max(held/pollPart, pollFirst), pollMost)
}

// soonAt returns how soon to look again for who has so many before it, while the lock
// changes hands.
func soonAt(place int) time.Duration { return min(time.Duration(place+1)*pollFirst, pollLeast) }

// sooner returns the shorter of two pauses, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
