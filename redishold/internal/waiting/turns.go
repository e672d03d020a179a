package waiting

import "time"

// Processes that wait for the same lock take turns: a release wakes all of them,
// and if all asked at once, all but one would ask in vain. Each counts how many
// releases it has heard since it held the lock itself. Who has heard as many as
// there are others was not served for longest, and asks at once; the others ask
// one after the other, unless they hear before that the lock was taken.
//
// It is only a matter of manners: who does not know how many others there are
// asks at once, and nobody waits longer than a moment for somebody who may be
// dead.

const (
	// takenMessage says on the channel of a lock that somebody has it now. Redisson
	// knows 0 and 1, and ignores all other numbers.
	takenMessage = "2"

	// repeatedMessage is the release on the classic channel of a lock of which the
	// sharded channel has it as well.
	repeatedMessage = "00"
	// directLimit is how long after a release on the sharded channel one on the
	// classic channel is taken for the same.
	directLimit = 100 * time.Millisecond

	// turnStep is the time between two that ask.
	turnStep = time.Millisecond
	// turnMost bounds the wait for one's turn.
	turnMost = 20 * time.Millisecond

	// othersMost bounds for how many channels that this process does not listen on it
	// knows how many others do.
	othersMost = 1024
	// othersLast is for how long that is of use.
	othersLast = time.Second
)

// turns is what a topic knows of waiters for the same name. The mutex of
// topics guards it.
type turns struct {
	others   int       // clients elsewhere that listen, as far as known; 0 if it is not
	releases int       // received since this process held the name
	since    time.Time // when the last was heard
	direct   time.Time // when the last was heard on the channel that counts
	taken    uint64    // the version of the topic at which somebody else took the name
}

// until returns when it is this process's turn to ask.
func (t *turns) until() time.Time {
	if t.releases >= t.others {
		return t.since
	}
	return t.since.Add(min(time.Duration(t.others-t.releases)*turnStep, turnMost))
}

// Holds records that this process has got the name of a channel.
func (ts *Topics) Holds(channel string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		t.releases = -1 // its own release will be heard, too
	}
}

// Counted records how many others received a release.
func (ts *Topics) Counted(channel string, others int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		t.others = max(others, 0)
	} else {
		ts.remember(channel, max(others, 0))
	}
}

// remember keeps how many others want the name of a channel that this process does
// not listen on: it may be back in a moment. The mutex is held.
func (ts *Topics) remember(channel string, others int) {
	if others == 0 {
		delete(ts.others, channel)
		return
	}
	if len(ts.others) >= othersMost {
		clear(ts.others)
	}
	if ts.others == nil {
		ts.others = map[string]listeners{}
	}
	ts.others[channel] = listeners{others, time.Now().Add(othersLast)}
}

// listeners is how many others listened on a channel, as long as that is of use.
type listeners struct {
	others int
	until  time.Time
}

// remembered returns how many others want the name of a channel that this process
// begins to listen on. The mutex is held.
func (ts *Topics) remembered(channel string) int {
	c := ts.others[channel]
	delete(ts.others, channel)
	if time.Now().After(c.until) {
		return 0
	}
	return c.others
}
