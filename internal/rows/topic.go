package rows

import (
	"slices"
	"time"
)

// topic is what the hub knows about one name. The mutex of the hub guards it.
type topic struct {
	sleepers    []*sleeper  // one for each Waiter of the name that has waited and was not closed
	idle        *time.Timer // removes the topic; set when the last waiter leaves, nil before that
	last        uint64      // Row.Last at the last poll
	foremost    int         // the smallest position of a sleeper in the queue, at the last poll
	polledAt    time.Time   // when the last poll was
	wakePending bool        // all sleepers will be woken when the current Turn has passed
	missed      string      // the owner in the last notification whose owner had no sleeper
	version     uint64      // changes with each event that may be a release for any waiter
}

// sleeper is one waiter of a topic. The mutex of the hub guards it.
type sleeper struct {
	owner       string
	version     uint64        // changes with each event that may be a release for this waiter
	changed     chan struct{} // closed when the version changes; then an open channel replaces it
	waiting     bool          // a call of Wait is under way
	position    int           // how many waiters were before this one when Wait began; the constant Waiting if it was not in the queue
	noQueue     bool          // the waiter does not enter the queue
	pollsBefore uint64        // hub.polls when Wait began
	shouldTry   bool          // a poll or a notification has shown that another Try may be granted
}

// find returns the sleeper of an owner, or nil if the owner has no sleeper. t may be nil.
func (t *topic) find(owner string) *sleeper {
	if t == nil {
		return nil
	}
	at := slices.IndexFunc(t.sleepers, func(s *sleeper) bool { return s.owner == owner })
	if at < 0 {
		return nil
	}
	return t.sleepers[at]
}

// queueRoom returns how many more waiters the queue of a row can have.
func (h *hub) queueRoom(r *Row) int {
	if h.noQueue {
		return 0
	}
	return Waiting - len(r.Waiters)
}
