package holdfast

import "time"

// Clients elsewhere that wait for a name go first when it was released here.

const (
	// How long other clients go first when a lock came back: some round trips, as
	// long as the release took, and a moment for each of those that are known to wait.
	yieldTrips = 3
	yieldLeast = 200 * time.Microsecond
	yieldEach  = time.Millisecond
	yieldMost  = 5 * time.Millisecond
)

// vainMost bounds how much later a chance comes that nobody makes use of: it comes
// after eight times Handoff.For.
const vainMost = 3

// unknown is a number of waiting clients that nobody has counted.
const unknown = -1

// yieldFor returns until when clients elsewhere go first after a release that began at
// began, 0 if they need not. Where it is not known whether others wait, they do so
// from chance on.
func (l *Locker) yieldFor(others int, began, chance instant) instant {
	if others == 0 {
		return 0
	}
	now, least := l.clock.Now(), yieldLeast
	switch {
	case others > 0:
		least = time.Duration(others) * yieldEach
	case now < chance:
		return 0
	}
	return now + min(max(yieldTrips*(now-began), least), yieldMost)
}

// counted records how many clients elsewhere heard of a release, if there still
// is a queue for it, and returns when they get a chance if that is not known.
func (g *gates) counted(key gateKey, others int) (chance instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.m[key]; q != nil {
		q.others, chance = others, q.chance
	}
	return chance
}

// plan sets when clients elsewhere get a chance after a grant: they came before it, or
// had a chance, or it is the first for long. The mutex is held.
func (q *gate) plan(l *lease, cameFirst, hadChance bool) {
	switch {
	case cameFirst:
		q.vain = 0
	case hadChance:
		q.vain = min(q.vain+1, vainMost)
	case q.chance != 0:
		return
	}
	q.chance = l.first.since + min(l.locker.handoff.For, time.Hour)<<q.vain
}

// start is how clients elsewhere go first.
type start struct {
	until instant // 0 if they do not
	known bool    // that some wait
}

// remember keeps until when clients elsewhere go first for a name that nobody of this
// process waits for: who asks for it next may be the one who has just released it.
// The mutex is held.
func (g *gates) remember(key gateKey, s start) {
	if len(g.released) >= unusedMost {
		clear(g.released) // which costs those who wait elsewhere one chance
	}
	g.released[key] = s
}
