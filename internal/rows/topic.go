package rows

import (
	"slices"
	"time"
)

// topic is what is known of one name. The mutex of the hub guards it.
type topic struct {
	sleepers []*sleeper  // those that were made and not closed
	idle     *time.Timer // ends a topic without waiters; nil if there was none to end yet
	last     uint64      // token of the row when it was looked at last
	place    int         // of the foremost waiter then
	looked   time.Time   // when that was
	due      bool        // it changes when the turn of another has passed
	missed   string      // whose turn it was according to the last notification, if it was none of sleepers
	version  uint64      // changes with everything that may mean a release for anybody
}

// sleeper is one waiter of a topic. The mutex of the hub guards it.
type sleeper struct {
	owner   string
	version uint64        // changes with everything that may mean a release for it
	changed chan struct{} // closed when version changes, and replaced
	inside  bool          // it waits now
	place   int           // while it waits: how many did before it, Waiting if it has no place in the queue
	look    uint64        // the last look before it began to wait
	ready   bool          // a try is worth while: what woke it has just read the row, or heard of it
}

// find returns the sleeper of an owner; nil if there is none. t may be nil.
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

// room returns how many places the queue of a row has left.
func (h *hub) room(r *Row) int {
	if h.noQueue {
		return 0
	}
	return Waiting - len(r.Waiters)
}
