package waiting

import "time"

// A release wakes all clients that wait for the lock. If all of them tried at once, all tries
// but one would fail. So the clients stagger their tries. Each client counts the releases since
// it last held the lock. A client that has counted as many releases as there are other waiting
// clients tries at once, because it has waited longest. The other clients try later, one client
// every staggerStep. When the message comes that the lock is taken, the clients that have not
// tried yet do not try. A client is a Locker, usually the only one of its process.
//
// This is only for fairness and load. A client that does not know the number of others tries
// at once, and no client waits longer than staggerMax for others, which may have died.

const (
	// takenMessage is the message on the channel of a lock which means that the lock was
	// granted again. Redisson knows 0 and 1, and ignores other numbers.
	takenMessage = "2"

	// repeatedMessage is the message that a release publishes on the classic channel, if it also
	// publishes a message on the sharded channel.
	repeatedMessage = "00"
	// repeatedLimit is the maximal time between the two messages of one release. A
	// repeatedMessage that comes later than this belongs to another release.
	repeatedLimit = 100 * time.Millisecond

	// staggerStep is the time between the tries of two clients.
	staggerStep = time.Millisecond
	// staggerMax is the maximal time by which a client delays its try.
	staggerMax = 20 * time.Millisecond

	// maxRemembered is the maximal number of keys without a topic for which the number of other
	// listeners is kept.
	maxRemembered = 1024
	// rememberFor is how long such a number is used.
	rememberFor = time.Second
)

// stagger is what a topic knows about the other clients that wait for the same name. The
// mutex of Topics guards it.
type stagger struct {
	others       int       // number of other clients that listen on the channel; 0 if unknown
	releases     int       // number of releases since this client last held the lock
	lastChange   time.Time // when the topic got its current version
	lastRelease  time.Time // when the message of the latest release came; a repeatedMessage does not count
	takenVersion uint64    // the version of the topic when the latest takenMessage came
}

// retryAt returns when this client should try, after the latest change of the topic.
func (t *stagger) retryAt() time.Time {
	if t.releases >= t.others {
		return t.lastChange
	}
	return t.lastChange.Add(min(time.Duration(t.others-t.releases)*staggerStep, staggerMax))
}

// isNext reports whether this client has waited longest of those that listen.
func (t *stagger) isNext() bool { return t.others > 0 && t.releases >= t.others }

// Granted records that the client has got the lock to which the channel belongs.
func (ts *Topics) Granted(key Key) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[key]; t != nil {
		t.releases = -1 // this client will receive its own release, too
	}
}

// SetOthers records how many other clients have received the message of a release on the
// channel.
func (ts *Topics) SetOthers(key Key, others int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[key]; t != nil {
		t.others = max(others, 0)
	} else {
		ts.remember(key, max(others, 0))
	}
}

// remember keeps the number of other clients that listen on a channel on which this client does
// not listen, because this client may listen again soon. The caller holds the mutex.
func (ts *Topics) remember(key Key, others int) {
	if others == 0 {
		delete(ts.others, key)
		return
	}
	if len(ts.others) >= maxRemembered {
		clear(ts.others)
	}
	if ts.others == nil {
		ts.others = map[Key]listeners{}
	}
	ts.others[key] = listeners{others, time.Now().Add(rememberFor)}
}

// listeners is the number of other clients that listened on a channel, and until when that
// number is used.
type listeners struct {
	others int
	until  time.Time
}

// remembered returns the number of other clients that listen on a channel on which this client
// begins to listen, or 0 if the number is unknown. The caller holds the mutex.
func (ts *Topics) remembered(key Key) int {
	l := ts.others[key]
	delete(ts.others, key)
	if time.Now().After(l.until) {
		return 0
	}
	return l.others
}
