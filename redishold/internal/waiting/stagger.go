package waiting

import "time"

// A release wakes all processes that wait for the lock. If all of them tried at once, all tries
// but one would fail. So the processes stagger their tries. Each process counts the releases
// since it last held the lock. A process that has counted as many releases as there are other
// waiting processes tries at once, because it has waited longest. The other processes try later,
// one process every staggerStep. When the message comes that the lock is taken, the processes
// that have not tried yet do not try.
//
// This is only for fairness and load. A process that does not know the number of others tries
// at once, and no process waits longer than staggerMax for others, which may have died.

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

	// staggerStep is the time between the tries of two processes.
	staggerStep = time.Millisecond
	// staggerMax is the maximal time by which a process delays its try.
	staggerMax = 20 * time.Millisecond

	// maxRemembered is the maximal number of channels without a subscription for which the
	// number of other listeners is kept.
	maxRemembered = 1024
	// rememberFor is how long such a number is used.
	rememberFor = time.Second
)

// stagger is what a topic knows about the other processes that wait for the same name. The
// mutex of Topics guards it.
type stagger struct {
	others       int       // number of other clients that listen on the channel; 0 if unknown
	releases     int       // number of releases since this process last held the lock
	lastChange   time.Time // when the topic got its current version
	lastRelease  time.Time // when the message of the latest release came; a repeatedMessage does not count
	takenVersion uint64    // the version of the topic when the latest takenMessage came
}

// retryAt returns when this process should try, after the latest change of the topic.
func (t *stagger) retryAt() time.Time {
	if t.releases >= t.others {
		return t.lastChange
	}
	return t.lastChange.Add(min(time.Duration(t.others-t.releases)*staggerStep, staggerMax))
}

// Granted records that this process has got the lock to which the channel belongs.
func (ts *Topics) Granted(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		t.releases = -1 // this process will receive its own release, too
	}
}

// SetOthers records how many other clients have received the message of a release on a channel.
func (ts *Topics) SetOthers(channel string, others int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		t.others = max(others, 0)
	} else {
		ts.remember(channel, max(others, 0))
	}
}

// remember keeps the number of other clients that listen on a channel to which this process is
// not subscribed, because this process may subscribe again soon. The caller holds the mutex.
func (ts *Topics) remember(channel string, others int) {
	if others == 0 {
		delete(ts.others, channel)
		return
	}
	if len(ts.others) >= maxRemembered {
		clear(ts.others)
	}
	if ts.others == nil {
		ts.others = map[string]listeners{}
	}
	ts.others[channel] = listeners{others, time.Now().Add(rememberFor)}
}

// listeners is the number of other clients that listened on a channel, and until when that
// number is used.
type listeners struct {
	others int
	until  time.Time
}

// remembered returns the number of other clients that listen on a channel to which this process
// begins to subscribe, or 0 if the number is unknown. The caller holds the mutex.
func (ts *Topics) remembered(channel string) int {
	l := ts.others[channel]
	delete(ts.others, channel)
	if time.Now().After(l.until) {
		return 0
	}
	return l.others
}
