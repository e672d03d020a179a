package redishold

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
	// sharded channel tells as well.
	repeatedMessage = "00"
	// directLimit is how long after a release on the sharded channel one on the
	// classic channel is taken for the same.
	directLimit = 100 * time.Millisecond

	// turnStep is the time between two that ask.
	turnStep = time.Millisecond
	// turnMost bounds the wait for one's turn.
	turnMost = 20 * time.Millisecond
)

// turns is what a topic knows of those who wait for the same name. The mutex of
// topics guards it.
type turns struct {
	crowd
	heard  int       // releases since this process held the name
	since  time.Time // when the last was heard
	direct time.Time // when the last was heard on the channel that counts
	taken  uint64    // the version of the topic at which somebody else took the name
}

// crowd is how many others want a name.
type crowd struct {
	others int // clients elsewhere that listen, as far as known; 0 if it is not

	// learned is how many releases this process has heard lately before it got the
	// name. Where all take turns that is how many others there are.
	learned int
	grants  int // since learned grew
}

// crowdsMost bounds for how many names that nobody of this process waits for the
// crowd is kept.
const crowdsMost = 1024

// until returns when it is this process's turn to ask.
func (t *turns) until() time.Time {
	ahead := max(t.others, t.learned) - t.heard
	if ahead <= 0 {
		return t.since
	}
	return t.since.Add(min(time.Duration(ahead)*turnStep, turnMost))
}

// holds records that this process has got the name of a channel. Where releases do
// not tell how many others listen it learns that from those that it heard before.
func (ts *topics) holds(channel string, learns bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[channel]
	if t == nil {
		return
	}
	if learns {
		t.learn(t.heard)
	}
	t.heard = -1 // its own release will be heard, too
}

// learn follows a growing crowd at once, and a shrinking one slowly: who is served
// early by chance must not take that for its turn.
func (c *crowd) learn(heard int) {
	const slowly = 4
	c.grants++
	switch {
	case heard >= c.learned:
		c.learned, c.grants = min(heard, int(turnMost/turnStep)), 0
	case c.grants >= slowly && c.learned > 0:
		c.learned, c.grants = c.learned-1, 0
	}
}

// counted records how many others heard of a release.
func (ts *topics) counted(channel string, others int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.open[channel]; t != nil {
		t.others = max(others, 0)
		return
	}
	c, known := ts.crowds[channel]
	if c.others = max(others, 0); known || others > 0 {
		ts.remember(channel, c)
	}
}

// remember keeps the crowd of a channel that this process does not listen on: it
// may be back in a moment. The mutex is held.
func (ts *topics) remember(channel string, c crowd) {
	switch {
	case c.others == 0 && c.learned == 0:
		delete(ts.crowds, channel)
	case len(ts.crowds) >= crowdsMost:
		clear(ts.crowds)
		fallthrough
	default:
		ts.crowds[channel] = c
	}
}

// repeated records a release of which the sharded channel tells as well. Where that
// has not come yet it may be lost, and the waiters ask a moment later.
func (ts *topics) repeated(t *topic) {
	if time.Since(t.direct) < directLimit {
		return
	}
	ts.advance(t)
	t.since = t.since.Add(turnMost)
}
