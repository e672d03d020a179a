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

	// briefHold is the limit for brief holds. A client that waits tries after staggerStep, unless
	// it is its turn.
	briefHold = staggerStep

	// maxRemembered is the maximal number of keys without a topic about which something is
	// remembered.
	maxRemembered = 1024
	// rememberFor is how long a remembered number of other listeners is used.
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
	habits
}

// habits is how a client uses a lock. It outlasts the topic.
type habits struct {
	granted time.Time // when the client got the lock for which it had waited; zero if it does not hold the lock
	brief   bool      // the last such hold was shorter than briefHold
	left    time.Time // when the last waiter left the topic
}

// released records that the client begins to release the lock.
func (h *habits) released() {
	if !h.granted.IsZero() {
		h.brief = time.Since(h.granted) < briefHold
		h.granted = time.Time{}
	}
}

// returns reports whether the client waits again soon after its last waiter has left. Then
// its topic stays for the time lingerFor.
func (h *habits) returns() bool { return !h.left.IsZero() && time.Since(h.left) < lingerFor }

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
		t.granted = time.Now()
	}
}

// Releasing records that the client begins to release the lock to which the channel belongs. It
// returns the current state of the topic.
func (ts *Topics) Releasing(key Key) State {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[key]; t != nil {
		t.released()
		return t.state
	}
	if r, ok := ts.closed[key]; ok {
		r.released()
		ts.closed[key] = r
	}
	return Idle
}

// Announces reports whether the client tells the others that it has got the lock to which the
// channel belongs. It does not if its last hold of that lock was brief and at most one other client
// listens: that client tries at the release at once, because it is its turn. Of several others,
// those whose turn comes later may try in vain before a brief hold ends.
func (ts *Topics) Announces(key Key) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[key]
	return t != nil && (!t.brief || t.others > 1)
}

// SetOthers records how many other clients have received the message of a release on the
// channel.
func (ts *Topics) SetOthers(key Key, others int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	others = max(others, 0)
	if t := ts.open[key]; t != nil {
		t.others = others
		return
	}
	r, ok := ts.closed[key]
	if ok || others > 0 {
		r.others, r.until = others, time.Now().Add(rememberFor)
		ts.remember(key, r)
	}
}

// remembered is what a client remembers about a channel on which it does not listen, because it
// may listen again soon.
type remembered struct {
	others int       // how many other clients listened
	until  time.Time // until when that number is used
	habits
}

// remember keeps r for a channel on which the client does not listen. The caller holds the mutex.
func (ts *Topics) remember(key Key, r remembered) {
	if len(ts.closed) >= maxRemembered {
		clear(ts.closed)
	}
	if ts.closed == nil {
		ts.closed = map[Key]remembered{}
	}
	ts.closed[key] = r
}

// recall gives a new topic what the client remembers about the channel. The caller holds the mutex.
func (ts *Topics) recall(t *topic) {
	r := ts.closed[t.key]
	delete(ts.closed, t.key)
	t.habits = r.habits
	if time.Now().Before(r.until) {
		t.others = r.others
	}
}
