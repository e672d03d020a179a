package holdfast

import (
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// queueKey identifies a queue. Each kind of lock has its own queue, also under one name.
type queueKey struct {
	name string
	kind kind
}

// queueState is what the head of a queue leaves to the next head. The mutex of the queues
// guards it.
type queueState struct {
	turns

	// lastBusy is the last answer of the store to a head, if that was "busy"; nil if it was a
	// grant, or if there is none. A caller that gives up in the queue reports the holder that
	// this answer names.
	lastBusy *driver.Outcome

	answeredAt clock.Instant // when the store last answered a head
	lastErr    error         // the last failure of a head since answeredAt; nil if there is none

	// spare is the Waiter of an earlier head. It stays open while goroutines are queued,
	// so that the next head uses the same subscription.
	spare driver.Waiter
}

// recordAnswer records an answer of the store. The parameter `busy` is an answer that the lock is
// busy; nil means that the answer was a grant.
func (s *queueState) recordAnswer(now clock.Instant, busy *driver.Outcome) {
	s.lastBusy = busy
	s.answeredAt = now
	s.lastErr = nil
}

// mayBeFree reports whether the lock may be free, as far as the answers of the store show. It may
// not be free if an answer came after `began`, the start of a call, or if the last answer was
// "busy" and its RetryAfter is unknown or has not passed.
func (s *queueState) mayBeFree(began, now clock.Instant) bool {
	if s.answeredAt >= began {
		return false
	}
	return s.lastBusy == nil || s.lastBusy.RetryAfter > 0 && s.answeredAt+s.lastBusy.RetryAfter < now
}

// keepSpare keeps w for the next head. The parameter n is the number of goroutines of this
// process that wait in the queue, or ask the store as its heads. If n is 0, or if there is a
// spare Waiter already, it returns w, which the caller must close.
func (s *queueState) keepSpare(w driver.Waiter, n int) (unused driver.Waiter) {
	if w == nil || n == 0 || s.spare != nil {
		return w
	}
	s.spare = w
	return nil
}

// takeSpare returns the spare Waiter, which the caller owns from then on; nil if there is
// none.
func (s *queueState) takeSpare() driver.Waiter {
	w := s.spare
	s.spare = nil
	return w
}

// dropSpare returns the spare Waiter if n is 0, because then no goroutine needs that Waiter any
// more. The caller must close it. The parameter n is that of keepSpare.
func (s *queueState) dropSpare(n int) driver.Waiter {
	if n > 0 {
		return nil
	}
	return s.takeSpare()
}

func closeWaiter(w driver.Waiter) {
	if w != nil {
		w.Close()
	}
}
